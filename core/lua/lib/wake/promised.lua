-- Has nobody promised to come back by this moment? `timer`: when somebody comes; one that is over is a promise that was broken.
-- Needs: `now`. Gives: `nobody_comes`.
-- without `timer <= now or`: a broken promise keeps workers asleep
-- without `or moment < timer`: what is due before the promised look starts late
local function nobody_comes(timer, moment) return timer <= now or moment < timer end
