#!/usr/bin/env python3
"""Takes each guard out of the scripts in turn and expects a test to notice.

    tools/mutants.py                  all of them
    tools/mutants.py once reserve     those of these files
    tools/mutants.py --write          writes docs/mutants.md from the list below

The scripts' text is altered when a test assembles it, so nothing is built anew. A text that is no longer in its file,
or there more than once, is an error at once: the list follows the scripts.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LUA = ROOT / "core" / "lua"
DOC = ROOT / "docs" / "mutants.md"

LONG_TEST = "model::differential"

EARLIER = "if earlier then return earlier end"
REFUSED = "if refused then return refused end"

# (file, the guard's text, what stands there instead, what the guard prevents)
MUTANTS: list[tuple[str, str, str, str]] = [
    ("once", "if last_number == call_number then", "if false then", "a call sent again is executed again"),
    ("limits", "- redis.call('ZCARD', reserved)", "", "each worker keeps to the limit for itself"),
    (
        "limits",
        "if most and most ~= '0' then",
        "if most then",
        "a queue with a rate and no limit of places gives nothing",
    ),
    (
        "rate",
        "if at < now_us then at, rest = now_us, 0 end",
        "",
        "after a rest all that could have started starts at once",
    ),
    (
        "rate",
        "if is_late then at, rest = now_us + us, 0 end",
        "",
        "a slower rate that was set before holds the queue up for hours",
    ),
    (
        "rate",
        "redis.pcall('HSET', meta, rate.field, string.format('%.0f;0', rate.at))",
        "",
        "the end of a slower rate moves on with the clock",
    ),
    (
        "rate",
        "math.min(tonumber(rest or 0), jobs - 1)",
        "tonumber(rest or 0)",
        "the rest of a finer rate counts as whole microseconds",
    ),
    ("rate", "total % rate.jobs", "0", "rounding gives more jobs than the rate"),
    ("limits", "note_late(rate)", "", "the end of a slower rate moves on with the clock"),
    (
        "limits",
        "room = math.min(room, starts_left(rate))",
        "room = starts_left(rate)",
        "a rate undoes the limit of places",
    ),
    ("names", "if most == '0' then most_of[number] = math.huge end", "", "jobs of a name with a rate have no places"),
    ("name_rooms", "rate and rate.left or math.huge", "math.huge", "rates of names limit nothing"),
    (
        "name_rooms",
        "most == 0 or most == math.huge",
        "most == math.huge or rates and rates[number] or most == 0",
        "a rate undoes the limit of places of its name",
    ),
    (
        "name_rooms",
        "if rates[number] then count_starts(rates[number], count) end",
        "",
        "starts are not counted against the rate of their name",
    ),
    (
        "name_rooms",
        "for _, number in ipairs(rated) do note_late(rates[number]) end",
        "",
        "the end of a slower rate of a name moves on with the clock",
    ),
    (
        "name_rooms",
        "room(number) == 0 and places_left[number] > 0",
        "room(number) == 0",
        "somebody comes back for a start of a name that has no place",
    ),
    (
        "name_rooms",
        "places_left[number] = places_left[number] - 1",
        "",
        "somebody comes back for a start of a name whose last place was just taken",
    ),
    (
        "name_rooms",
        "places_left[number] > 0 and #first_parked(number, nil, 1) > 0 then",
        "places_left[number] > 0 then",
        "somebody comes back for a name that has no job",
    ),
    (
        "name_rooms",
        "next_start = math.min(next_start, opens_at(rates[number]))",
        "next_start = opens_at(rates[number])",
        "a job waits for the rate of another name",
    ),
    (
        "name_rooms",
        "if not is_some_parked() then return next_start end",
        "",
        "a foreign type under `parked` fails an ack that is done",
    ),
    ("set_names", "if not string.find(limit, ':', 1, true) then", "if false then", "what a rate has seen outlives it"),
    (
        "limit",
        "if #unrated > 0 then redis.call('HDEL', meta, unpack(unrated)) end",
        "",
        "a rate of a name that was taken away counts starts when it comes again",
    ),
    (
        "place_freed",
        "some_wait = timer <= now or opens < timer",
        "some_wait = true",
        "every ack wakes a worker for jobs that nobody may take yet",
    ),
    (
        "place_freed",
        "if opens < math.huge and not some_wait then",
        "if false then",
        "a place is free and nobody comes back when the rate of its name lets the next job start",
    ),
    ("keep_results", "if flags[tonumber(ARGV[at])] == '1' then", "do", "who lost the lease leaves a result"),
    ("keep_results", "next_item = next_item + 3 * result_count", "", "results are taken for outcomes"),
    ("keep_results", ", 'PX', ARGV[at + 1]", "", "results stay for ever"),
    ("keep_results", "redis.pcall('DEL', told)", "", "a hint that something else wrote over wakes nobody"),
    ("keep_results", "redis.pcall('PEXPIRE', told, 60000)", "", "hints for waiters stay for ever"),
    (
        "result",
        "if redis.call('HEXISTS', jobs, id) == 1 then",
        "if false then",
        "an earlier job's result is taken for this one's",
    ),
    (
        "result",
        "if redis.call('ZSCORE', failed, id) then",
        "if false then",
        "who waits for a failed job waits for ever",
    ),
    (
        "progress",
        "redis.call('HGET', leases, id) ~= token or ",
        "",
        "who lost the lease notes progress of another's run",
    ),
    (
        "progress",
        " or tonumber(redis.call('ZSCORE', reserved, id) or 0) <= now",
        "",
        "a handler whose lease is over is not told so",
    ),
    ("progress", ", 'PX', 3600000", "", "progress stays for ever"),
    (
        "progress",
        "if format > 1 then return string.format('format %.0f', format) end",
        "",
        "an old client writes into a queue of a newer format",
    ),
    (
        "progress_of",
        "string.sub(noted, 1, #token + 1) == token .. ';'",
        "true",
        "progress of an earlier run is shown",
    ),
    ("beat", "if life_ms > 0 then", "do", "a worker that has stopped is listed"),
    ("beat", "redis.call('ZREM', workers, unpack(dead))", "", "dead workers stay for ever"),
    ("beat", "redis.call('HDEL', worker_infos, unpack(dead))", "", "what dead workers said stays for ever"),
    (
        "beat",
        "if format > 1 then return string.format('format %.0f', format) end",
        "",
        "an old client writes into a queue of a newer format",
    ),
    ("beat", "redis.call('HLEN', worker_infos)", "", "a foreign type leaves a worker without what it says of itself"),
    ("workers", "'(' .. now_text", "'-inf'", "dead workers are listed"),
    (
        "place_freed",
        " and string.byte(known[7]) ~= 48 then",
        " then",
        "every ack in a queue with a rate wakes a worker for nothing",
    ),
    ("place_freed", " and known[4] ~= '1' then", " then", "every ack in a paused queue wakes a worker for nothing"),
    (
        "place_freed",
        "some_wait or redis.call('EXISTS', ready(level)) == 1 end",
        "true end",
        "acks wake workers while nothing is ready",
    ),
    (
        "limit",
        "redis.call('HDEL', meta, 'limits', 'rate_at')",
        "redis.call('HDEL', meta, 'limits')",
        "a limit that was taken away counts starts when it comes again",
    ),
    ("limit", "--- include: wake_one", "", "nobody takes the jobs that a higher limit lets run"),
    ("limit", EARLIER, "", "a limit that was replaced comes back with a late copy"),
    ("limit", REFUSED, "", "an old client writes into a queue of a newer format"),
    (
        "cancel",
        "if state == 'reserved' then freed = true end",
        "",
        "the place of a cancelled job stays empty for a second",
    ),
    ("settle", "--- include: place_freed", "", "a place that is given back stays empty for a second"),
    ("reserve", "want = math.min(want, room)", "", "limits limit nothing"),
    ("reserve", "if charge_rate then charge_rate(granted) end", "", "starts are not counted against the rate"),
    (
        "reserve",
        "if named and named.rates then named.charge_rates() end",
        "",
        "starts are not counted against the rate of their name",
    ),
    (
        "reserve",
        "if named.rates then named.note_late() end",
        "",
        "the end of a slower rate of a name moves on with the clock",
    ),
    (
        "reserve",
        "if granted == room then opens",
        "if false then opens",
        "workers are woken for jobs that no worker may take",
    ),
    (
        "reserve",
        "places_left > granted and math.max(opens, opens_us()) or math.huge",
        "math.huge",
        "nobody comes back when the rate lets the next job start",
    ),
    (
        "reserve",
        "left_behind and now_us or named and named.rates and named.next_start() or math.huge",
        "left_behind and now_us or math.huge",
        "nobody comes back when the rate of a name lets the next job start",
    ),
    (
        "reserve",
        "if asked > 0 and named and named.rates and not paused then opens = named.next_start() end",
        "",
        "a waiter is not told when the rate of a name lets the next job start",
    ),
    (
        "reserve",
        "asked > 0 and named and named.rates and not paused",
        "asked > 0 and named and named.rates",
        "a paused queue has its waiters come back for the rate of a name",
    ),
    (
        "reserve",
        "if some_wait then next_due = nil end",
        "",
        "waiters of a queue that a limit holds back turn in circles",
    ),
    (
        "reserve",
        "if some_wait then opens = now_us end",
        "",
        "a waiter is not told when the rate lets the next job start",
    ),
    (
        "reserve",
        "opens = places_left > 0 and math.max(opens, opens_us()) or math.huge",
        "",
        "a waiter comes back before the rate lets the next job start",
    ),
    (
        "reserve",
        "if asked == 0 and string.find(settled, '1', 1, true) then",
        "if false then",
        "a worker that stops leaves its places empty for a second",
    ),
    (
        "reserve",
        "(has[1] or has[2]) and 1 or 0",
        "0",
        "a worker fetches ahead in a queue with limits after a lost answer",
    ),
    ("routing", "if name_length ~= '0' then", "do", "jobs without a name count as jobs of one name"),
    (
        "name_rooms",
        "most - redis.call('ZCOUNT', places, number, number)",
        "most",
        "each worker keeps to the limit for itself",
    ),
    (
        "name_rooms",
        "most == 0 or most == math.huge",
        "most == math.huge",
        "jobs of a limit that was taken away stay where they are for ever",
    ),
    (
        "name_rooms",
        "rooms[number] = room(number) - 1",
        "room(number)",
        "one reserve takes more jobs of a name than its limit lets",
    ),
    (
        "name_rooms",
        "if room(number) > 0 and #first_parked(number, nil, 1) > 0 then return true end",
        "if #first_parked(number, nil, 1) > 0 then return true end",
        "every ack wakes a worker for jobs that nobody may take",
    ),
    (
        "name_rooms",
        "if room(number) > 0 and #first_parked(number, nil, 1) > 0 then return true end",
        "",
        "a place of a name that is given back stays empty for a second",
    ),
    (
        "name_rooms",
        "local some = redis.pcall('ZCARD', parked)",
        "local some = redis.call('ZCARD', parked)",
        "a foreign type under `parked` fails an ack that is done",
    ),
    (
        "live_names",
        "if most ~= '0' or is_used(number) then",
        "if most ~= '0' then",
        "what a limit held back that was taken away is never found again",
    ),
    (
        "live_names",
        "if most ~= '0' or is_used(number) then",
        "do",
        "limits that were taken away cost every reserve for ever",
    ),
    (
        "live_names",
        "if is_used(number) then live[#live + 1] = string.format",
        "if false then live[#live + 1] = string.format",
        "a queue that lost its meta hides what its limits held back",
    ),
    (
        "live_names",
        "redis.call('ZCOUNT', places, number, number) > 0 or #first_parked(number, nil, 1) > 0",
        "redis.call('ZCOUNT', places, number, number) > 0",
        "what a limit held back is forgotten with its last running job",
    ),
    (
        "live_names",
        "redis.call('ZCOUNT', places, number, number) > 0 or #first_parked(number, nil, 1) > 0",
        "#first_parked(number, nil, 1) > 0",
        "a running job keeps its place under the number that another name gets",
    ),
    ("meta", "names = names or is_lost and '?'", "", "a queue that lost its meta hides what its limits held back"),
    (
        "first_use",
        "if names == '?' then redis.call('HSET', meta, 'names', names) end",
        "",
        "a push into a queue that lost its meta hides what its limits held back",
    ),
    (
        "set_names",
        "limits_of[name] or '0'",
        "limits_of[name] or had",
        "a limit that is taken away stays",
    ),
    ("set_names", "until not is_taken[string.format('%.0f', number)]", "until true", "two names share one limit"),
    ("set_names", "if number <= MOST_NUMBERS then", "do", "numbers of names grow into those of other levels"),
    ("set_names", "    limits_of[name] = nil\n", "", "a limit that is set again counts from nothing"),
    (
        "count_reserved",
        "if number and named.most_of[number] > 0 then redis.call('ZADD', places, number, id) end",
        "",
        "a new limit lets as many run again as run already",
    ),
    ("count_reserved", "if is_new then", "do", "limits that are said again read a thousand records"),
    ("find_full", "if named.room(own) > 0 then", "do", "limits of names limit nothing"),
    ("find_full", "is_full[k], records[k] = true, false", "is_full[k] = true", "a job that is full runs all the same"),
    ("find_full", " or record and number", "", "a job that comes from a lost limit has no place"),
    (
        "find_full",
        "parked_bytes = parked_bytes + #record",
        "",
        "one reserve reads any number of large records only to put them aside",
    ),
    (
        "take_places",
        "place_pairs[#place_pairs + 1] = own\n    place_pairs[#place_pairs + 1] = entries[k]",
        "",
        "a running job holds no place",
    ),
    (
        "take_places",
        "redis.call('ZADD', parked, unpack(pairs_of_full))",
        "",
        "what a limit of a name holds back is lost",
    ),
    (
        "take_places",
        " and named.most_of[own] > 0 then",
        " then",
        "a limit that was taken away is not forgotten while its name has jobs",
    ),
    (
        "set_names",
        "if had == '0' and limit ~= '0' then is_new = true end",
        "",
        "a limit that comes again does not count what runs",
    ),
    ("take_places", "turn_of(own, level, turn + k)", "turn_of(own, level, 0)", "held back jobs lose their order"),
    ("take_places", "turn_of(own, level, turn + k)", "turn_of(own, 5, turn + k)", "held back jobs lose their level"),
    (
        "to_head",
        " and #first_parked(number, level, 1) > 0 then",
        " then",
        "a job that came back is looked for where nothing else is",
    ),
    (
        "to_head",
        "if number and string.find(passed_levels, level, 1, true) and #first_parked(number, level, 1) > 0 then",
        "if false then",
        "a job whose worker died waits behind all that its name's limit holds back",
    ),
    ("to_head", "-redis.call('HINCRBY'", "redis.call('HINCRBY'", "a job that comes back goes behind younger ones"),
    (
        "settle_acks",
        "if names then redis.call('ZREM', places, unpack(held)) end",
        "",
        "an ack keeps its place for ever",
    ),
    (
        "settle_acks",
        "if names then redis.call('ZCARD', places) end",
        "",
        "a foreign type under `places` acks by half",
    ),
    (
        "settle_others",
        "if number then redis.call('ZREM', places, id) end",
        "",
        "a failed or released job keeps its place for ever",
    ),
    (
        "settle_others",
        "if names then\n  redis.call('ZCARD', parked)\n  redis.call('ZCARD', places)\nend\n",
        "",
        "a foreign type under `places` loses the jobs that came back",
    ),
    (
        "reclaim_expired",
        "if number then redis.call('ZREM', places, id) end",
        "",
        "a worker that died keeps its places for ever",
    ),
    (
        "reclaim_expired",
        "  if names then\n    redis.call('ZCARD', parked)\n    redis.call('ZCARD', places)\n  end\n",
        "",
        "a foreign type under `places` loses the jobs that were taken back",
    ),
    ("remove", "if names then redis.call('ZREM', places, id) end", "", "a cancelled job keeps its place for ever"),
    (
        "remove",
        "elseif names and redis.call('ZREM', parked, id) == 1 then",
        "elseif false then",
        "a cancelled job that was held back comes up all the same",
    ),
    (
        "remove",
        "  if names then\n    redis.call('ZCARD', parked)\n    redis.call('ZCARD', places)\n  end\n",
        "",
        "a foreign type under `parked` cancels a job by half",
    ),
    ("purge", "redis.call('ZREM', parked, unpack(held))", "", "purged jobs that were held back leave their entries"),
    ("purge", "parked, 0, cap - seen - 1)", "parked, 0, cap - 1)", "a purge removes more than its cap"),
    (
        "purge",
        "if names then redis.call('ZCARD', parked) end",
        "",
        "a foreign type under `parked` purges by half",
    ),
    (
        "limit",
        "  redis.call('HLEN', jobs)\n  redis.call('ZCARD', reserved)\n  redis.call('ZCARD', parked)\n",
        "",
        "a foreign type under `reserved` sets limits by half",
    ),
    (
        "reserve",
        "if number then asked = math.min(asked, named.room(number)) end",
        "",
        "held back jobs are taken out and put back again and again",
    ),
    (
        "reserve",
        "local number = numbers_parked and numbers_parked[next_name]",
        "local number = nil",
        "what a limit of a name held back never runs",
    ),
    (
        "reserve",
        "if named and granted == want and not left_behind then left_behind = redis.call('EXISTS', list) == 1 end",
        "",
        "jobs behind those that were held back are left and nobody is woken",
    ),
    (
        "reserve",
        "if named and not left_behind then left_behind = named.takeable() end",
        "",
        "held back jobs whose name has places again are left and nobody is woken",
    ),
    (
        "reserve",
        "  some_wait = some_wait or named and named.takeable()\n",
        "",
        "a waiter is not told when the rate lets a held back job start",
    ),
    (
        "reserve",
        " or parked_bytes > max_bytes",
        "",
        "one reserve reads any number of large records only to put them aside",
    ),
    (
        "reserve",
        "if #place_pairs > 0 then redis.call('ZADD', places, unpack(place_pairs)) end",
        "",
        "a running job holds no place",
    ),
    (
        "reserve",
        "if names then\n  redis.call('ZCARD', parked)\n  redis.call('ZCARD', places)\nend\n",
        "",
        "a foreign type under `places` leases jobs to nobody",
    ),
    (
        "peek",
        "for _, id in ipairs(redis.call('ZRANGE', parked",
        "for _, id in ipairs(true and {} or redis.call('ZRANGE', parked",
        "a page hides held back jobs",
    ),
    ("counts", "redis.call('ZCARD', parked) - ", "-", "held back jobs are not counted"),
    (
        "once",
        "elseif tonumber(last_number) > tonumber(call_number) then",
        "elseif false then",
        "a late copy of a call is executed after its client went on",
    ),
    (
        "once",
        "tonumber(last_number) > tonumber(call_number)",
        "last_number > call_number",
        "call 10 is taken for a late copy, being less than 9 as text",
    ),
    (
        "once",
        "if is_new or call_renew == '1' then",
        "if call_renew == '1' then",
        "the answers of a client that is gone stay for ever",
    ),
    (
        "once",
        "if is_new or call_renew == '1' then",
        "if is_new then",
        "the answers of a busy client vanish after 20 minutes",
    ),
    (
        "meta",
        "if known[1] and tonumber(known[1]) > tonumber(FORMAT) then",
        "if false then",
        "an old client writes into a queue of a newer format",
    ),
    (
        "meta",
        "if not string.find(passed_levels, level, 1, true) then refused = 'levels ' .. levels end",
        "",
        "a caller that does not know of a level hides its jobs",
    ),
    (
        "meta",
        "is_lost and '0123456789' or passed_levels",
        "passed_levels",
        "a queue that lost its meta hides the jobs of other levels",
    ),
    (
        "first_use",
        "if not known[1] or levels ~= passed_levels then",
        "if not known[1] then",
        "a level that came into use is not written down",
    ),
    (
        "first_use",
        "if not known[1] or levels ~= passed_levels then",
        "if levels ~= passed_levels then",
        "a queue without a format",
    ),
    ("routing", "if key_length ~= '0' then", "do", "jobs without a key fight for the empty key"),
    (
        "delayed_member",
        "if level == '5' then return id end",
        "",
        "the member is spelled in another way than other scripts do",
    ),
    ("due", "if ms <= now then return nil end", "", "a due job is delayed"),
    ("wake", "if timer <= now or due < timer then wake_one() end", "wake_one()", "every delayed push wakes a worker"),
    ("wake", "timer <= now or ", "", "a broken promise keeps workers asleep"),
    ("wake", " or due < timer", "", "a job that is due before the promised look starts late"),
    ("wake_one", "waking < 2", "true", "the wake list grows with every push"),
    (
        "wake_one",
        "redis.pcall('LLEN', wake)",
        "redis.call('LLEN', wake)",
        "a foreign type under `wake` fails every push",
    ),
    ("wake_one", "type(waking) == 'number' and ", "", "a foreign type under `wake` fails every push"),
    ("came_back", "if err == '' then err = last_error end", "", "a release forgets the last error"),
    ("failed_set", "math.min(surplus, cap)", "surplus", "one failure trims a backlog of any size"),
    (
        "failed_set",
        "'-inf', oldest, 'LIMIT', 0, cap)",
        "'-inf', oldest)",
        "one failure trims a backlog of any size",
    ),
    ("failed_set", "math.max(TRIM_CAP, entered)", "TRIM_CAP", "jobs that fail by the thousand outgrow the bound"),
    ("failed_set", "if surplus > 0 then", "do", "jobs within the limit are trimmed"),
    (
        "failed_set",
        " and redis.call('HGET', keys, key) == id then",
        " then",
        "a failed job frees a key that another job holds",
    ),
    ("failed_set", "  free_key(key, id)\n", "", "a failed job blocks its key"),
    (
        "remove",
        "if redis.call('ZSCORE', delayed, delayed_member(id, level)) then return 'delayed', level, key end\n"
        "  if redis.call('HEXISTS'",
        "if redis.call('HEXISTS'",
        "a cancelled delayed job stays in `delayed`",
    ),
    (
        "remove",
        "if redis.call('HEXISTS', leases, id) == 1 then return 'reserved', level, key end",
        "",
        "a cancelled job's worker keeps its lease",
    ),
    (
        "remove",
        "if redis.call('ZSCORE', failed, id) then return 'failed', level, key end",
        "",
        "a cancelled failed job stays in `failed`",
    ),
    ("remove", "if not record then return nil end", "", "cancelling what is not there stops the script"),
    (
        "remove",
        "if key and redis.call('HGET', keys, key) == id then",
        "if key then",
        "cancelling a failed job frees a key that another job holds",
    ),
    ("remove", "redis.call('HINCRBY', stale, level .. ':' .. id, 1)", "", "a job that comes again runs twice"),
    ("remove", "redis.call('HDEL', returned, id)", "", "notes of jobs that are gone stay for ever"),
    ("stale", "if count == 0 then return false end", "", "a job that counts is skipped and lost"),
    (
        "stale",
        "if count == 1 then redis.call('HDEL', stale, field) else redis.call('HINCRBY', stale, field, -1) end",
        "",
        "a job that comes again is skipped and lost",
    ),
    (
        "promote_due",
        "'LIMIT', '0', promote_cap)",
        "'LIMIT', '0', '100000')",
        "a million jobs due at once stall the server",
    ),
    (
        "reclaim_expired",
        "'LIMIT', '0', reclaim_cap)",
        "'LIMIT', '0', '100000')",
        "a million ended leases stall the server",
    ),
    ("reclaim_expired", "> max_retries then", "> max_retries + 1 then", "a job that kills its workers gets one more"),
    ("reclaim_expired", "redis.call('HDEL', leases, unpack(expired))", "", "a worker that lost its lease acks the job"),
    (
        "reclaim_expired",
        "for i = #expired, 1, -1 do",
        "for i = 1, #expired do",
        "the job that waited longest goes last",
    ),
    ("reclaim_expired", "    if record then\n", "    do\n", "a lease without a record stops every reserve"),
    (
        "settle_acks",
        "tokens[i] and tokens[i] == ARGV[last + i]",
        "tokens[i]",
        "a late ack removes a job that another runs",
    ),
    ("settle_acks", "flags[i] == '1' and key ~= ''", "key ~= ''", "a late ack frees the key of a live job"),
    (
        "settle_acks",
        " and redis.call('HGET', keys, key) == id then",
        " then",
        "an ack frees a key that another job holds",
    ),
    (
        "settle_acks",
        "local acked = redis.call('HDEL', leases, unpack(held))",
        "redis.call('HDEL', leases, unpack(held)) local acked = #held",
        "an ack that is there twice is counted twice",
    ),
    (
        "settle_others",
        "if redis.call('HGET', leases, id) ~= token then",
        "if not redis.call('HGET', leases, id) then",
        "a late fail or release takes a job from its worker",
    ),
    (
        "settle_others",
        "if redis.call('HGET', leases, id) ~= token then",
        "if false then",
        "a late fail or release brings back a job that is gone",
    ),
    ("settle_others", "if record ~= '' then", "do", "a failure without a hook empties the record"),
    ("settle_others", "(verb == 'retry' or verb == 'failed') and 1 or 0", "1", "a release counts as a failure"),
    (
        "settle_others",
        "if verb == 'release' then\n          released",
        "if false then\n          released",
        "a released job goes behind younger ones",
    ),
    ("settle_others", "enter_failed(id, own_key)", "enter_failed(id, key)", "an undecodable failed job blocks its key"),
    (
        "settle_others",
        "if entered_failed > 0 then trim_failed(entered_failed) end",
        "",
        "failed jobs pile up without bound",
    ),
    ("extend", "if format > 1 then", "if false then", "an old client writes into a queue of a newer format"),
    ("extend", "redis.call('HGET', leases, id) == token and ", "", "a worker that lost its lease extends another's"),
    (
        "extend",
        " and tonumber(redis.call('ZSCORE', reserved, id) or 0) > now",
        "",
        "a lease that is over comes back to life",
    ),
    (
        "reserve",
        "if earlier == 'superseded' then return earlier end",
        "",
        "a late copy of a reserve stops the script, or gives jobs to nobody",
    ),
    (
        "reserve",
        "#settled > 0 or call_renew == '1'",
        "#settled > 0",
        "a late copy of a reserve that found nothing leases jobs to nobody",
    ),
    ("reserve", "if earlier then\n", "if false then\n", "a reserve sent again leases other jobs"),
    (
        "reserve",
        "    if redis.call('HGET', leases, id) == token then",
        "    do",
        "a reserve sent again gives a job that another worker has",
    ),
    ("reserve", REFUSED, "", "a reserve passes over levels and formats that it does not know"),
    ("reserve", "if want > 0 and not paused then", "if want > 0 then", "a paused queue hands out jobs"),
    ("reserve", "math.max(now_us, tonumber(known[5] or 0) + 1)", "now_us", "two leases have the same token"),
    (
        "reserve",
        "math.max(now_us, tonumber(known[5] or 0) + 1)",
        "tonumber(known[5] or 0) + 1",
        "a failover that forgot the last tokens grants them again",
    ),
    (
        "reserve",
        "local some_stale = tonumber(known[6] or 0) > 0",
        "local some_stale = false",
        "a job runs before its new due time, or twice",
    ),
    (
        "reserve",
        "if bytes > max_bytes and granted + k - gone > 1 then",
        "if bytes > max_bytes then",
        "a job larger than the limit is never handed out",
    ),
    ("reserve", "granted + k - gone > 1", "granted + k > 1", "a cancelled entry holds back the large job behind it"),
    ("reserve", "if bytes > max_bytes and", "if false and", "a reply of any size"),
    ("reserve", "          if records[k] then\n", "          do\n", "entries of jobs that are gone are handed out"),
    ("reserve", " or looked_at >= 10 * want + 100", "", "one reserve walks through any number of cancelled entries"),
    (
        "reserve",
        "next_us - now_us",
        "(next_at - now) * 1000",
        "a waiter starts a job up to a millisecond late",
    ),
    (
        "reserve",
        "next_us - now_us",
        "math.floor(next_at - now_us / 1000) * 1000",
        "a waiter comes back before the job is due, and goes round until it is",
    ),
    ("reserve", "  reply[4] = 0\n", "", "a worker sleeps while a job is ready behind cancelled ones"),
    (
        "reserve",
        "local opens = left_behind and now_us or",
        "local opens =",
        "jobs are left behind and nobody is woken",
    ),
    (
        "reserve",
        "opens < math.huge and (timer <= now or math.ceil(opens / 1000) < timer)",
        "opens < math.huge",
        "workers are woken for a moment for which another one promised to come back",
    ),
    (
        "reserve",
        "  if promise > 0 and timer == promise then\n    redis.call('HDEL', meta, 'timer')\n    timer = 0\n  end\n",
        "",
        "the waiter that promised to come back is busy, and nobody else comes",
    ),
    ("reserve", "if wait_ms > 0 and not wake_next then", "if false then", "nobody comes back for the next due job"),
    ("reserve", "timer <= now or tonumber(next_due) < timer", "true", "a worker is woken though another comes back"),
    (
        "reserve",
        "math.max(now + 1, math.min(next_at, now + wait_ms))",
        "next_at",
        "a waiter promises to come back when it will be gone",
    ),
    ("reserve", "math.max(now + 1, ", "math.max(now, ", "a promise for now, which nobody can keep"),
    (
        "reserve",
        "if wait_ms > 0 and (timer <= now or timer == promise or next_at < timer) then",
        "if wait_ms > 0 then",
        "every waiter comes back at the next due time",
    ),
    (
        "reserve",
        "if reply[5] == 0 and promise > 0 and timer == promise then",
        "if false then",
        "a waiter that leaves takes its promise with it",
    ),
    (
        "reserve",
        "answer(settled .. '  ')\nend\nreturn reply\n",
        "end\nreturn reply\n",
        "outcomes that were handed along are refused when sent again",
    ),
    (
        "reserve",
        "if is_kept then\n  --- include: room_first",
        "if is_kept then",
        "a server without memory fails the reserve of a worker that lost its leases",
    ),
    ("reserve", "redis.call('HLEN', leases)\n", "", "a foreign type under `leases` loses the jobs that were popped"),
    ("settle", EARLIER, "", "an ack sent again is told that the lease was lost"),
    ("settle", REFUSED, "", "outcomes are written into levels and formats that the caller does not know"),
    ("cancel", EARLIER, "", "a cancel sent again removes the job that was pushed since"),
    (
        "cancel",
        "return answer(table.concat(lines, '\\n'))",
        "return removed > 0 and answer(table.concat(lines, '\\n')) or table.concat(lines, '\\n')",
        "a late copy of a cancel removes the job that was pushed since",
    ),
    ("cancel", REFUSED, "", "an old client writes into a queue of a newer format"),
    ("extend", "clock, room_first", "clock", "a server without memory lets leases end"),
    ("push", EARLIER, "", "a push sent again puts the jobs in twice"),
    ("push", REFUSED, "", "jobs are pushed into levels and formats that others do not see"),
    ("push", "if at and timer > now and timer <= at then wake = nil end", "", "every delayed push wakes a worker"),
    ("push", "timer > now and ", "", "a broken promise keeps workers asleep"),
    (
        "push",
        "for i = first_item, last_item, 2 do redis.call('HDEL', jobs, ARGV[i]) end",
        "",
        "a foreign type under a list leaves records that nobody hands out",
    ),
    (
        "push_unique",
        "  return answer(reply)\n",
        "  return reply\n",
        "a late copy stores the job that its caller was told is refused",
    ),
    ("push_unique", EARLIER, "", "a push sent again finds its own job as the duplicate"),
    ("push_unique", REFUSED, "", "jobs are pushed into levels and formats that others do not see"),
    ("push_unique", "if redis.call('HEXISTS', jobs, id) == 1 then return id end", "", "one id means two jobs"),
    (
        "push_unique",
        "if holder and redis.call('HEXISTS', jobs, holder) == 1 then return holder end",
        "",
        "one key means two live jobs",
    ),
    (
        "push_unique",
        "if holder and redis.call('HEXISTS', jobs, holder) == 1 then return holder end",
        "if holder then return holder end",
        "a key whose job is gone blocks for ever",
    ),
    (
        "push_unique",
        "if holder and if_held ~= 'replace' then",
        "if false then",
        "a duplicate replaces the job that is there",
    ),
    (
        "push_unique",
        "holder = holder_of(id, key)\n      end",
        "holder = nil\n      end",
        "of two jobs that hold the id and the key, one stays",
    ),
    (
        "push_unique",
        "redis.call('ZCARD', delayed)",
        "",
        "a foreign type under `delayed` leaves a record that nobody hands out",
    ),
    (
        "push_unique",
        "do redis.call('LLEN', ready(used)) end",
        "do end",
        "a foreign type under a list leaves a record that nobody hands out",
    ),
    (
        "push_unique",
        "redis.call('HLEN', keys)\n",
        "",
        "a foreign type under `keys` leaves a record that nobody hands out",
    ),
    ("push_unique", "if some_ready then wake_one() end", "", "a waiting worker does not hear of a new job"),
    (
        "push_unique",
        "if earliest then wake_for(earliest) end",
        "",
        "a waiting worker does not hear of a nearer due time",
    ),
    ("requeue", EARLIER, "", "a requeue sent again requeues the job that failed again since"),
    ("requeue", REFUSED, "", "jobs are requeued into levels and formats that the caller does not know"),
    (
        "requeue",
        "redis.call('ZSCORE', failed, id) and redis.call('HGET', jobs, id)",
        "redis.call('HGET', jobs, id)",
        "requeueing a job that has not failed puts it in twice",
    ),
    ("requeue", "if holder and holder ~= id and", "if false and", "requeueing makes two live jobs of one key"),
    (
        "requeue",
        " and redis.call('HEXISTS', jobs, holder) == 1",
        "",
        "a key whose job is gone keeps a failed one from being requeued",
    ),
    (
        "requeue",
        "return answer(table.concat(lines, '\\n'))",
        "return requeued > 0 and answer(table.concat(lines, '\\n')) or table.concat(lines, '\\n')",
        "a late copy requeues the job that failed since",
    ),
    ("reschedule", EARLIER, "", "a reschedule sent again moves the job that somebody else moved since"),
    ("reschedule", REFUSED, "", "a job goes into levels and formats that the caller does not know"),
    ("reschedule", "  return answer(reply)", "  return reply", "a late copy moves the job that was pushed since"),
    (
        "reschedule",
        "if not record then return not_touched('absent') end",
        "",
        "rescheduling what is not there stops the script",
    ),
    (
        "reschedule",
        "if state == 'reserved' or state == 'failed' then return not_touched(state .. ' ' .. id) end",
        "",
        "a job that runs is also delayed",
    ),
    (
        "reschedule",
        "if state == 'ready' then leave_state(id, level, state) end",
        "",
        "a rescheduled job runs at once, too",
    ),
    (
        "purge",
        "\nreturn answer(reply)",
        "\nreturn seen > 0 and answer(reply) or reply",
        "a late copy of a purge removes the jobs that came since",
    ),
    ("purge", EARLIER, "", "a purge sent again removes the jobs that came since"),
    ("purge", REFUSED, "", "an old client writes into a queue of a newer format"),
    (
        "purge",
        "if not skip_stale(level, id) then ids[#ids + 1] = id end",
        "ids[#ids + 1] = id",
        "purging ready jobs removes one that has been rescheduled",
    ),
    (
        "purge",
        "if key and redis.call('HGET', keys, key) == ids[i] then",
        "if key then",
        "purging failed jobs frees a key that a live job holds",
    ),
    ("purge", "ready(level), 0, cap - seen - 1)", "ready(level), 0, cap - 1)", "a purge removes more than its cap"),
    ("promote", REFUSED, "", "jobs are promoted into levels and formats that the caller does not know"),
    ("reclaim", REFUSED, "", "jobs are taken back into levels and formats that the caller does not know"),
    (
        "reclaim_expired",
        "redis.call('HLEN', returned)\n",
        "",
        "a foreign type under `returned` loses the jobs that were taken back",
    ),
    (
        "reclaim_expired",
        "  redis.call('ZCARD', failed)\n",
        "",
        "a foreign type under `failed` loses the jobs that have failed",
    ),
    (
        "reclaim_expired",
        "do redis.call('LLEN', ready(used)) end",
        "do end",
        "a foreign type under a list loses the jobs that were taken back",
    ),
    (
        "promote_due",
        "elseif not level or not string.find(passed_levels, level, 1, true) then",
        "elseif false then",
        "a member that duly did not write holds up every reserve",
    ),
    (
        "promote_due",
        "elseif not level or not string.find(passed_levels, level, 1, true) then",
        "elseif not level then",
        "a member with a level that nobody uses holds up every reserve",
    ),
    (
        "promote_due",
        "level = record and routing(record)",
        "level = record and '5'",
        "a job with a malformed member forgets its level",
    ),
    (
        "promote_due",
        "level = record and routing(record)",
        "level = routing(record or '{')",
        "a member without a job is handed on",
    ),
    ("promote_due", "'0', #promoted - 1", "'0', '-1'", "jobs beyond the cap are lost"),
    (
        "promote_due",
        "do redis.call('LLEN', ready(level)) end",
        "do end",
        "a foreign type under a list loses the jobs that were due",
    ),
    (
        "settle_others",
        "redis.call('HLEN', returned)\n",
        "",
        "a foreign type under `returned` loses the jobs that came back",
    ),
    (
        "settle_others",
        "for i = #released, 1, -1 do",
        "for i = 1, #released do",
        "jobs that are given back together are turned round",
    ),
    ("settle_others", "redis.call('ZCARD', failed)\n", "", "a foreign type under `failed` loses the jobs that failed"),
    (
        "settle_others",
        "do redis.call('LLEN', ready(used)) end",
        "do end",
        "a foreign type under a list loses the jobs that came back",
    ),
    ("requeue", "redis.call('HLEN', returned)\n", "", "a foreign type under `returned` loses the requeued jobs"),
    (
        "requeue",
        "do redis.call('LLEN', ready(used)) end",
        "do end",
        "a foreign type under a list loses the requeued jobs",
    ),
    (
        "purge",
        "redis.call('HLEN', returned)\n",
        "",
        "a foreign type under `returned` leaves records that nobody hands out",
    ),
    (
        "reschedule",
        "do redis.call('LLEN', ready(used)) end",
        "do end",
        "a foreign type under a list loses the rescheduled job",
    ),
    (
        "push_unique",
        "if ARGV[i + 3] ~= '' then redis.call('HSET', returned, id, ARGV[i + 3]) end",
        "",
        "an imported job forgets how often it failed",
    ),
    (
        "push_unique",
        "redis.call('HLEN', returned)\n",
        "",
        "a foreign type under `returned` leaves an imported record that nobody hands out",
    ),
    (
        "reserve",
        "for k = length, math.max(fitting, 1) + 1, -1 do",
        "for k = length, length + 1, -1 do",
        "a hundred large records are read to hand out one",
    ),
    ("reserve", "want + 100, '100'", "100000, '100'", "a million jobs due at once stall the server"),
    (
        "reclaim_expired",
        "redis.call('HLEN', jobs)\n",
        "",
        "a foreign type under `jobs` loses the jobs that were taken back",
    ),
    (
        "reclaim_expired",
        "redis.call('HLEN', leases)\n",
        "",
        "a foreign type under `leases` loses the jobs that were taken back",
    ),
    (
        "reclaim_expired",
        "redis.call('HLEN', keys)\n",
        "",
        "a foreign type under `keys` loses the jobs that were taken back",
    ),
    ("remove", "redis.call('HLEN', returned)\n", "", "a foreign type under `returned` cancels a job by half"),
    ("remove", "redis.call('HLEN', keys)\n", "", "a foreign type under `keys` cancels a job by half"),
    ("remove", "redis.call('ZCARD', reserved)\n", "", "a foreign type under `reserved` cancels a job by half"),
    ("remove", "redis.call('HLEN', stale)\n", "", "a foreign type under `stale` cancels a job by half"),
    ("settle_acks", "redis.call('HLEN', jobs)\n", "", "a foreign type under `jobs` acks by half"),
    ("settle_acks", "if keyed == 1 then redis.call('HLEN', keys) end", "", "a foreign type under `keys` acks by half"),
    ("settle_others", "redis.call('HLEN', jobs)\n", "", "a foreign type under `jobs` loses the jobs that came back"),
    (
        "settle_others",
        "redis.call('ZCARD', delayed)\n",
        "",
        "a foreign type under `delayed` loses the jobs to be retried",
    ),
    ("settle_others", "redis.call('HLEN', keys)\n", "", "a foreign type under `keys` loses the jobs that failed"),
    ("purge", "redis.call('HLEN', jobs)\n", "", "a foreign type under `jobs` loses the purged jobs' places"),
    ("purge", "redis.call('HLEN', keys)\n", "", "a foreign type under `keys` leaves records that nobody hands out"),
    ("purge", "redis.call('HLEN', stale)\n", "", "a foreign type under `stale` leaves records that nobody hands out"),
    (
        "purge",
        "do redis.call('LLEN', ready(level)) end",
        "do end",
        "a foreign type under a list fails a purge by half",
    ),
    ("requeue", "redis.call('HLEN', keys)\n", "", "a foreign type under `keys` fails a requeue by half"),
    ("reserve", "redis.call('HLEN', jobs)\n", "", "a foreign type under `jobs` fails a reserve by half"),
    ("reserve", "redis.call('ZCARD', delayed)\n", "", "a foreign type under `delayed` fails a reserve by half"),
    ("reserve", "redis.call('HLEN', returned)\n", "", "a foreign type under `returned` fails a reserve by half"),
    (
        "reserve",
        "if #ARGV >= first_item then redis.call('ZCARD', failed) end",
        "",
        "a foreign type under `failed` fails a reserve behind its acks",
    ),
    (
        "reserve",
        "do redis.call('LLEN', ready(level)) end",
        "do end",
        "a foreign type under a list loses the jobs that were popped",
    ),
    ("pause", EARLIER, "", "a late copy of a pause undoes the resume after it"),
    ("configure", EARLIER, "", "a late copy of a limit undoes the one set after it"),
    ("pause", REFUSED, "", "an old client writes into a queue of a newer format"),
    ("configure", REFUSED, "", "an old client writes into a queue of a newer format"),
    ("peek", "if (skipped[id] or 0) < stale_count then", "if false then", "a page shows a cancelled entry as a job"),
    (
        "peek",
        "if skip > 0 and (not some_stale or walk <= 0) then",
        "if skip > 0 then",
        "a page hides the job that came again behind its own stale entry",
    ),
]


def path_of(name: str) -> pathlib.Path:
    script = LUA / f"{name}.lua"
    return script if script.exists() else LUA / "lib" / f"{name}.lua"


def check() -> None:
    """Every guard is where the list says."""
    wrong = []
    for file, text, _, _ in MUTANTS:
        found = path_of(file).read_text().count(text) if path_of(file).exists() else 0
        if found != 1:
            wrong.append(f"{file}.lua has this {found} times: {text!r}")
    if wrong:
        sys.exit("the list of mutants does not fit the scripts:\n  " + "\n  ".join(wrong))


def write() -> None:
    lines = [
        "# Mutants",
        "",
        "Each guard in the scripts, and what happens without it. `tools/mutants.py` takes out one after the other",
        "and runs the tests of `core/src/model` against the altered script on a real server; a mutant that no test",
        "notices fails the run. This list is written by `tools/mutants.py --write`.",
        "",
        "The last full run, over 167 guards, caught 166. The one left (a promise for now, in `reserve`) has a test of",
        "its own since, which catches it. Those added or rewritten for limits of names were run alone:",
        "all 65 were caught. So were the 51 around rates, of which three needed tests of their own.",
        "",
        "| file | guard | without it |",
        "|---|---|---|",
    ]
    for file, text, replacement, prevents in MUTANTS:
        guard = " ".join(text.split())
        shown = f"`{guard}`" + (f" becomes `{' '.join(replacement.split())}`" if replacement.strip() else "")
        lines.append(f"| {file} | {shown} | {prevents} |".replace("||", "\\|\\|"))
    DOC.write_text("\n".join(lines) + "\n")


def test_program(folder: str) -> str:
    built = subprocess.run(
        ["cargo", "test", "-p", "duly", "--lib", "--no-run", "--message-format", "json"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    programs = [message.get("executable") for message in messages if message.get("reason") == "compiler-artifact"]
    # A copy, because the next build would replace it in the middle of the run.
    built_program = next(program for program in reversed(programs) if program)
    return shutil.copy(built_program, folder)


def run(program: str, file: str, text: str, replacement: str) -> tuple[bool, str, float]:
    """Was it caught, by what, and how long that took. The long test runs only if the short ones noticed nothing."""
    altered = {"DULY_MUTANT_FILE": file, "DULY_MUTANT_TEXT": text, "DULY_MUTANT_WITH": replacement}
    started = time.monotonic()
    failed: list[str] = []
    for tests in (["model::", "--skip", LONG_TEST], [LONG_TEST]):
        failed = failed or failing(program, tests, altered)
    return bool(failed), ", ".join(name.rsplit("::", 1)[1] for name in failed), time.monotonic() - started


def failing(program: str, tests: list[str], altered: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [program, *tests],
        env=os.environ | altered | {"RUST_BACKTRACE": "0"},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    failed = [
        line.split()[1] for line in done.stdout.splitlines() if line.startswith("test ") and line.endswith("FAILED")
    ]
    if done.returncode != 0 and not failed:
        sys.exit(f"the tests did not run:\n{done.stdout}")
    return failed


def main() -> None:
    check()
    if "--write" in sys.argv:
        write()
        return
    files = set(sys.argv[1:])
    chosen = [mutant for mutant in MUTANTS if not files or mutant[0] in files]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        program = test_program(folder)
        pool = concurrent.futures.ThreadPoolExecutor(2)
        results = pool.map(lambda mutant: run(program, *mutant[:3]), chosen)
        for (file, text, _, prevents), (caught, by, seconds) in zip(chosen, results, strict=True):
            if not caught:
                survivors.append((file, text))
            guard = " ".join(text.split())[:70]
            print(
                f"{'caught  ' if caught else 'SURVIVED'} {seconds:5.1f} s  {file:15} {guard:70}  {by or prevents}",
                flush=True,
            )
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants were caught")
    if survivors:
        sys.exit("not caught:\n  " + "\n  ".join(f"{file}: {text!r}" for file, text in survivors))


if __name__ == "__main__":
    main()
