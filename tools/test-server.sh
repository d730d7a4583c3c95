#!/usr/bin/env bash
# Runs the engine's tests against another server than the machine's: tools/test-server.sh /path/to/redis-server [part ...]
# The parts are lib, conformance, engine, worker and faults: all without an argument.
# Left out is what that server cannot do; each has its reason here. Ends with "N passed, N failed" and the server's version.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
program=$(realpath -s "$1") # not what a link leads to: Debian's redis-server is another program by name only
shift
cd "$(dirname "$0")/.."
command -v cargo >/dev/null || PATH="$HOME/.cargo/bin:$PATH"

said=$("$program" --version)
version=${said#* v=}
version=${version%% *}
major=${version%%.*}

skipped=()
if [ "$major" -lt 7 ]; then
    skipped+=(
        a_loading_server_is_waited_for_and_then_busy # cannot be made to load slowly
        a_server_that_does_not_start_is_quoted       # keeps its file elsewhere than the test damages it
    )
fi
if [ "$major" -lt 6 ]; then
    skipped+=( # no users (ACL)
        missing_permission_names_the_command
        wrong_password_is_reported_at_once_and_never_shown
        a_wrong_password_is_told_and_never_shown
        a_user_with_just_the_commands_that_are_needed_can_do_everything
        each_missing_permission_is_named_and_nothing_is_done_by_half
        who_may_not_wait_hears_which_command_is_missing
        keys_outside_of_the_users_pattern_are_refused_before_anything_is_written
        missing_permissions_are_found_on_every_node
        what_an_older_version_has_pulled_of_another_program_ends_no_ack
        a_publish_that_may_not_ask_for_the_highest_id_counts_nothing
        a_user_who_may_not_keep_tasks_in_their_list_hears_so_before_the_first_batch
        a_list_that_its_user_may_not_write_is_no_outage
    )
fi
case $version in
5.* | 6.0.*)
    skipped+=( # knows no MINID: scripts read what goes, and these tests count what is read
        a_batch_that_makes_another_one_go_does_not_read_it
        no_call_reads_much_because_another_program_has_added_much
        a_cut_looks_for_what_was_lost_once_for_all_subscriptions
        a_cut_reads_large_entries_once_however_many_subscriptions_hold_them
        large_entries_of_another_program_that_go_are_not_all_read_by_one_publish
        large_messages_that_go_at_once_are_not_all_read_by_one_publish
    )
    skipped+=( # no COPY, by which these tests play a server that has lost its last writes
        an_old_server_that_lost_its_last_writes_or_the_bridges_hash_does_not_stop_the_bridge
        a_batch_that_the_old_queue_has_is_not_given_back
        a_duly_server_that_lost_its_last_writes_does_not_stop_the_way_back
        a_batch_that_comes_over_goes_to_no_other_target
        a_batch_whose_target_is_gone_can_go_to_another_one
        a_bridge_that_is_refused_for_one_key_has_moved_nothing_of_another
        options_that_decide_nothing_may_differ
    )
    ;;
esac
# A program that was built without TLS does not know its settings and ends; another one has to be stopped.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tls=yes
timeout 1 "$program" --port 0 --unixsocket "$folder/s" --dir "$folder" --save "" --tls-port 0 >/dev/null 2>&1 || [ $? = 124 ] ||
    tls=no
if [ $tls = no ]; then
    skipped+=(
        tests::secure::own_authority tests::secure::client_certificate tests::secure::a_certificate
        tests::secure::an_expired tests::secure::a_self_signed plain_text_to_a_tls_port
        tests::secure::a_renewed_authority
    )
fi

export DULY_TEST_SERVER=$program DULY_SERVER=$program
arguments=()
for name in "${skipped[@]}"; do arguments+=(--skip "$name"); done
suites=("$@")
[ $# != 0 ] || suites=(lib conformance engine worker faults)

cargo_test=(cargo test --quiet -p duly --features opentelemetry)
log=$folder/log
for suite in "${suites[@]}"; do
    case $suite in
    lib) "${cargo_test[@]}" --lib -- "${arguments[@]}" ;;
    conformance) "${cargo_test[@]}" --test conformance ;; # runs all or, with a name, one: skips nothing
    *) "${cargo_test[@]}" --test "$suite" -- "${arguments[@]}" ;;
    esac >"$log" 2>&1 || cat "$log" >&2
    grep '^test result: ' "$log" || echo 'test result: FAILED. 0 passed; 1 failed'
done | awk -v what="${said%% sha=*}, TLS: $tls" '
    { good += $4; bad += $6 }
    END { printf "%d passed, %d failed: %s\n", good, bad, what; exit bad > 0 || good == 0 }'
