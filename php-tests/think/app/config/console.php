<?php

return ['commands' => []];
