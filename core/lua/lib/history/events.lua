-- What happens to jobs in this call, for the history of the queue, if it keeps one (`meta.history`): of each event a letter with what there is to
-- say of it, and then the ids, one behind the other with an end of line between. `history/keep` writes that down at the end of the call. By the
-- hundred, because a text for each of a hundred jobs costs the server as much as a third of all that is done with them.
-- Needs: what `call/meta` gives. Gives: `events`, nil without a history; `event_count`; `happened`; `said_of`, an error as it is noted.
local events, event_count = noted_history and {}, 0
local last_event, last_ids
local function happened(what, ids, count, detail)
  if not events then return end
  event_count = event_count + count
  local event = '\t' .. what .. '\t' .. (detail or '')
  -- One by one, and the same each time.
  if event == last_event then
    last_ids[#last_ids + 1] = ids
    return
  end
  last_event, last_ids = nil, nil
  -- What there is to say of acks and reserved jobs is a list, in the order of the ids.
  if count == 1 and what ~= 'A' and what ~= 'R' then last_event, last_ids = event, { ids } end
  local at = #events
  events[at + 1], events[at + 2] = event, last_ids or ids
end

-- The beginning of it, in one line.
local function said_of(err) return (string.gsub(string.sub(err, 1, 200), '[%c]', ' ')) end
