-- Leaves a queue of a newer format alone: what this script knows of it is old.
-- Needs: `noted_format`. Gives: nothing.
-- without: an old client writes into a queue of a newer format
if tonumber(noted_format or 1) > FORMAT then return 'format ' .. noted_format end
