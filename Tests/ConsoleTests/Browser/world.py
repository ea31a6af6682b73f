"""The state of the mocked development service: pushes, devices, faults, and readers of events."""

import json
import threading
import time

import samples


class World:
    """The state of a service. `lock` is held during each request."""

    def __init__(self, pushes=0):
        self.lock = threading.RLock()
        self.pushes = [samples.ordinary(number) for number in range(1, pushes + 1)]
        self.last = pushes
        self.readers = []
        self.events = []
        self.streams_allowed = True
        self.offset = 0
        self.faults = []
        self.next_fault = 1
        self.devices = {device["id"]: device for device in samples.devices()}
        self.shown = {id: [] for id in self.devices}
        self.activities = {id: [] for id in self.devices}
        self.channels = []
        self.calls = []
        # How often the page has asked for the number of pushes alone, and whether one arrives during the next time.
        self.counts, self.arrives_while_counting = 0, False
        self.send_answer, self.send_violations = None, []
        self.password = None
        self.strings = {}

    def now(self):
        return int(time.time() * 1000) + self.offset

    def tell(self, kind, value):
        with self.lock:
            self.events.append(f"event: {kind}\nid: {len(self.events)}\ndata: {json.dumps(value)}\n\n".encode())
            text = self.events[-1]
            for reader in self.readers:
                reader.put(text)

    def add(self, push):
        """Adds a push; members that it lacks are taken from an ordinary one."""
        with self.lock:
            self.last += 1
            whole = {**samples.ordinary(self.last, self.now()), **push, "number": self.last}
            self.pushes.append(whole)
            self.tell("push", whole)
            return whole

    def counted(self):
        """The page asks for the number of pushes. What arrives now is shown before it has the answer."""
        self.counts += 1
        if self.arrives_while_counting:
            self.arrives_while_counting = False
            self.add({})
            time.sleep(0.5)

    def cut(self):
        """Ends all event streams, and refuses new ones until `streams_allowed` is true again."""
        with self.lock:
            self.streams_allowed = False
            for reader in self.readers:
                reader.put(None)

    def update(self, number, change):
        with self.lock:
            push = self.find(number)
            push.update(change)
            self.tell("update", push)

    def find(self, number):
        return next((push for push in self.pushes if push["number"] == number), None)
