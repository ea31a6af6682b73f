"""The owner of a legacy sender: what it keeps account of around a library that cannot know what a lost connection took.

A library learns from an error packet that everything before the named notification was accepted, and from silence
nothing: what it wrote may be in the buffers of a connection whose other end was killed. So the owner ends each batch
with a checkpoint, a notification that every service rejects by itself: its payload is not JSON. Its packet says that
the whole batch was accepted. If the connection is lost before, the owner sends again what follows the last packet, with
the next attempt's number in its payload, so that the two can be told apart where they arrive.

For Python 2.7 and 3.
"""

from __future__ import print_function

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "InteropTests", "Senders"))

# What json writes as NaN.
CHECKPOINT = {"checkpoint": float("nan")}
SHUTDOWN = 10


def tell(**members):
    """A line for the test: members of one JSON object."""
    print(json.dumps(members))
    sys.stdout.flush()


def alert(number, attempt):
    return "n%d.%d" % (number, attempt)


class Batch(object):
    """Notifications of which the owner does not know whether they were accepted."""

    def __init__(self, numbers):
        self.left, self.attempt = list(numbers), 0

    def packet(self, number, status):
        """An error packet names one: those before it were accepted, and it is not sent again."""
        if number not in self.left:
            return
        self.left = self.left[self.left.index(number) + 1:]
        if status != SHUTDOWN:
            tell(reported=number, status=status)

    def doubt(self, given, retried):
        """The connection was lost. `given`: what the library got; `retried`: what of it the library itself sends again.
        """
        doubtful = [number for number in self.left if number in given]
        tell(doubtful=doubtful, attempt=self.attempt, retried=list(retried))
        self.attempt += 1


def deliver_all(plan, deliver):
    """Sends everything.

    `deliver(batch)` makes one attempt, and returns None once the checkpoint was rejected, else what the library was
    given, and what of it the library itself sends again."""
    count, size = len(plan["tokens"]), plan["batch"]
    for start in range(0, count, size):
        batch = Batch(range(start, min(start + size, count)))
        tell(begun=start // size)
        while True:
            lost = deliver(batch)
            if lost is None:
                break
            batch.doubt(*lost)
            time.sleep(0.2)
    tell(done=True)
