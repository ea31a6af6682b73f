"""What a stand-in knows that its mock shows: pushes, devices, faults, and who follows the events."""

import json
import threading
import time

import samples


class World:
    """What the service knows. `lock` is held around each request."""

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
        self.calls = []
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
        """A push arrives. What it does not say is as of an ordinary one."""
        with self.lock:
            self.last += 1
            whole = {**samples.ordinary(self.last, self.now()), **push, "number": self.last}
            self.pushes.append(whole)
            self.tell("push", whole)
            return whole

    def cut(self):
        """Ends all streams of events, and takes none until `streams_allowed` is true again."""
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
