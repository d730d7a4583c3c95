#!/usr/bin/env bash
# What takes long, is random or asks the network, and therefore is no part of tools/test.sh: tools/soak.sh [beginning of a step's
# name], such as "mutants". Ends with "N passed, N failed", and the steps that could not be run here.
#
# What computes runs beside what waits, each with one of two cores, or the whole would take twice as long. It takes two hours on a
# machine that does nothing else, and tests fail on one that does.
#
# The random numbers are new in each run. The seed is printed, and a run of it is repeated with DULY_SEED=<seed>.
# DULY_SOAK_TIMES makes every part so many times longer.
#
# tools/soak.sh --go-on goes on with a whole run that was ended or had failures: of the same commit, and with its seed. What has
# passed is not run again.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. tools/steps.sh
logs=build/soak
longest_step_s=$((6 * 3600))
mkdir -p $logs
seed=${DULY_SEED:-$((RANDOM * 32768 + RANDOM + 1))}
commit=$(git describe --always --abbrev=40 --dirty)
case ${1:-} in
    --go-on)
        read -r known_commit known_seed 2>/dev/null <$logs/passed
        if [ "${known_commit:-}" != "$commit" ] || [[ $commit = *-dirty ]]; then
            echo "there is no run of this commit, $commit, to go on with: begin one with tools/soak.sh" >&2
            exit 1
        fi
        seed=$known_seed noted=$logs/passed
        shift
        ;;
    '') echo "$commit $seed" >$logs/passed && noted=$logs/passed ;;
esac
times=${DULY_SOAK_TIMES:-1}
shape=(--workspace --features duly/opentelemetry) # of every build: see tools/build.sh
cases=("${shape[@]}" --profile soak --lib)        # what runs very many cases
export DULY_SEED=$seed DULY_MODEL_SEED=$seed PROPTEST_RNG_SEED=$seed DULY_KILL_SEED=$seed DULY_SOAK_SEED=$seed \
    DULY_DATA_SEED=$seed
# With few cases only the usual seeds meet all that the tests count.
usual=(env -u DULY_SEED -u DULY_MODEL_SEED -u PROPTEST_RNG_SEED)
kills=(pytest --capture=no python-tests/test_random_kills.py)

# What computes all the time.
computing() {
    tests 'everything at once' env DULY_SOAK_JOBS=$((100000 * times)) \
        cargo test "${shape[@]}" --test soak -- --nocapture everything_at_once
    tests 'sizes: a million jobs' env DULY_SOAK_MANY=$((1000000 * times)) \
        cargo test "${shape[@]}" --test soak -- --nocapture a_million_jobs
    tests 'sizes: a million failed jobs' env DULY_SOAK_MANY=$((1000000 * times)) \
        cargo test "${shape[@]}" --test soak -- --nocapture a_million_failed_jobs
    tests 'sizes: many findings of an audit' cargo test "${shape[@]}" --test soak -- --nocapture many_findings
    tests 'random steps for scripts and model' env DULY_MODEL_CASES=$((20000 * times)) \
        cargo test "${cases[@]}" -- --nocapture model::differential model::locks model::schedules model::topics
    tests 'random texts and numbers' env PROPTEST_CASES=$((1000000 * times)) \
        cargo test "${cases[@]}" -- any_ it_agrees_with_serde_json value::retry schedule::plan
    tests 'properties of what strangers wrote' env PROPTEST_CASES=$((1000000 * times)) \
        cargo test "${cases[@]}" -- --nocapture properties it_panic
    if cargo +nightly fuzz --version >/dev/null 2>&1; then
        tests 'fuzz targets' ./tools/fuzz.sh $((60 * times))
    else
        not_run 'fuzz targets' 'they need a nightly compiler and cargo-fuzz'
    fi
    check 'mutants: each is caught' "${usual[@]}" ./tools/mutants.py
    check 'dependencies: licences, bans, sources' cargo deny --all-features check bans licenses sources
    local missing
    if missing=$(./tools/advisories.sh --can); then
        check 'dependencies: advisories' ./tools/advisories.sh
    else
        not_run 'dependencies: advisories' "$missing"
    fi
    check 'dependencies: the newest' "${usual[@]}" ./tools/newest.sh
}

# What waits much of its time: for clocks, for processes that are killed, for leases.
waiting() {
    tests 'topics on bad lines' env DULY_TOPIC_MESSAGES=$((20000 * times)) \
        cargo test "${shape[@]}" --test engine -- --nocapture nothing_is_lost_on_bad_lines_with_members_that_die
    needs skins tests 'locks whose holders are killed' env DULY_LOCK_KILLS=$((200 * times)) \
        pytest --capture=no python-tests/test_lock.py -k holders_are_killed
    needs skins tests 'texts of data in Python' env DULY_DATA_CASES=$((100000 * times)) \
        pytest python-tests/test_data_texts.py
    needs skins tests 'texts of data in PHP' env DULY_DATA_CASES=$((100000 * times)) \
        phpunit --configuration php-tests/phpunit.xml --filter DataTextsTest
    tests 'a job that kills its workers' env DULY_POISON_JOBS=$((20000 * times)) \
        cargo test "${shape[@]}" --test worker -- --nocapture a_job_that_kills_its_workers_fails_alone
    tests 'forks beside pushing threads' env DULY_FORKS=$((500 * times)) \
        cargo test "${shape[@]}" --test faults -- --nocapture children_that_are_forked_beside_pushing_threads
    needs skins tests 'random kills' env DULY_KILL_JOBS=$((200000 * times)) "${kills[@]}"
    needs skins tests 'random kills of workers that fire schedules' env DULY_KILL_SECONDS=$((300 * times)) \
        pytest --capture=no python-tests/test_schedule_kills.py
    needs skins tests 'random kills and a clock that jumps' env DULY_KILL_SECONDS=$((300 * times)) \
        pytest --capture=no python-tests/test_schedule_jumps.py
    needs skins tests 'random kills of members of topics' env DULY_TOPIC_KILLS=$((1000 * times)) \
        pytest --capture=no python-tests/test_topic_kills.py
    if [ -n "${DULY_THINK_VENDOR:-}" ]; then
        needs skins tests 'random kills of workers of ThinkPHP' env DULY_KILL_JOBS=$((10000 * times)) \
            phpunit --configuration php-tests/phpunit.xml php-tests/think/KillsTest.php
    fi
    needs skins tests 'random kills of workers of Laravel' env DULY_KILL_JOBS=$((10000 * times)) \
        phpunit --configuration php-tests/phpunit.xml php-tests/laravel/KillsTest.php
    needs skins tests 'random kills of workers of Messenger' env DULY_KILL_JOBS=$((10000 * times)) \
        phpunit --configuration php-tests/phpunit.xml php-tests/symfony/KillsTest.php
    needs skins tests 'requests to php-fpm' env DULY_FPM_REQUESTS=$((100000 * times)) \
        phpunit --configuration php-tests/phpunit.xml php-tests/FpmLoadTest.php
    if command -v go >/dev/null; then
        needs skins tests 'the client in Go' pytest python-tests/test_api_go.py
    else
        not_run 'the client in Go' 'it needs Go, which tools/setup.sh --soak installs'
    fi
    needs skins tests 'random kills of bridges' env DULY_BRIDGE_KILLS=$((200 * times)) \
        pytest --capture=no python-tests/test_bridge_kills.py
    needs skins tests 'histories' python python-tests/record_history.py --seed "$seed" --seconds $((300 * times))
    needs skins tests 'histories that are wrong' python python-tests/record_history.py --seed "$seed" --seconds 30 --sabotage
}

# What is frozen for as long as its leases just bear: beside others it would be held up for longer than that.
alone() {
    tests 'workers and faults on a machine that stalls' ./tools/stalling.py \
        cargo test "${shape[@]}" --no-fail-fast --test worker --test faults
    needs skins tests 'random kills on a machine that stalls' env DULY_KILL_JOBS=$((50000 * times)) \
        ./tools/stalling.py "${kills[@]}"
}

steps() {
    beside computing waiting
    alone
}

# Also in a run that goes on: another build may have taken its place.
skins() {
    local noted=''
    check 'build: the skins' ./tools/build.sh --dev
}

echo "DULY_SEED=$seed"
all_steps steps "${1:-}"
