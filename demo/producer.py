"""A producer in Python: letters to be sent a little later, by whoever serves the queue, in whatever language.

usage: producer.py how-many seconds
"""

import json
import sys

import duly

how_many, delay = int(sys.argv[1]), float(sys.argv[2])
letters = duly.Client().queue("letters")
for number in range(1, how_many + 1):
    job = letters.push({"letter": number, "to": "小明"}, name="letter.send", delay=delay)
    print("@ " + json.dumps({"what": "pushed", "job": job, "about": f"letter {number}"}))
