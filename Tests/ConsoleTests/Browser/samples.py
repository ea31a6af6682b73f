"""Pushes, devices and figures as the API returns them, for the tests of the page."""

import base64
import json
import time

TOPIC = "com.example.app"
NAMES = [
    "Your order is on its way",
    "Anna sent a photo",
    "Boarding begins",
    "Rain from 16:00",
    "New message from Jörg",
]
BODIES = [
    "It arrives today between 14:00 and 16:00.",
    "“Look at this!”",
    "Gate B 42. Have your passport ready.",
    "Take an umbrella.",
]


def token(seed):
    return f"{seed * 2654435761 % (1 << 64):016x}" * 4


def rendering(**parts):
    empty = dict.fromkeys(
        [
            "title",
            "subtitle",
            "body",
            "badge",
            "sound",
            "category",
            "thread",
            "interruptionLevel",
            "relevance",
            "liveActivity",
        ]
    )
    return {**empty, "silent": False, "wakesApp": False, "language": "en", **parts}


def with_payload(payload, **parts):
    """A push with a payload, given as a value or as text."""
    text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
    value = None if isinstance(payload, str) else payload
    alert = (value or {}).get("aps", {}).get("alert", {}) if isinstance(value, dict) else {}
    alert = {"body": alert} if isinstance(alert, str) else alert
    shown = rendering(**{key: alert.get(key) for key in ("title", "subtitle", "body")})
    shown["silent"] = not any(alert.values())
    return {
        "payload": value,
        "payloadText": text,
        "payloadBytes": len(text.encode("utf-8", "replace")),
        "preview": shown,
        "shown": shown,
        **parts,
    }


def ordinary(number, now=None):
    refused = number % 17 == 0
    now = now or int(time.time() * 1000) - 60_000
    title, body = NAMES[number % len(NAMES)], BODIES[number % len(BODIES)]
    background = number % 11 == 0
    payload = (
        {"aps": {"content-available": 1}, "sync": number}
        if background
        else {
            "aps": {"alert": {"title": title, "body": body}, "sound": "default", "badge": number % 9},
            "order": number,
        }
    )
    push = with_payload(payload)
    if background:
        push["shown"] = push["preview"] = rendering(silent=True, wakesApp=True)
    else:
        push["shown"] = push["preview"] = rendering(title=title, body=body, sound="default", badge=number % 9)
    verdict = {"status": 200, "accepted": True, "reason": None, "explanation": None, "notes": [], "fault": None}
    states = [["Received by APNs", 0, None], ["Sent to Device", 2, None], ["Delivered to Device", 14, None]]
    if refused:
        verdict = {
            **verdict,
            "status": 410,
            "accepted": False,
            "reason": "Unregistered",
            "explanation": "The app was removed from the device, which the service has known since 14:02:11.",
        }
        states, push["shown"] = [], None
    violations = (
        [
            {
                "rule": "push-type-missing",
                "severity": "note",
                "message": "is not there. Name the push type.",
                "path": "apns-push-type",
            }
        ]
        if number % 13 == 0
        else []
    )
    kind = "background" if background else "alert"
    return {
        "number": number,
        "receivedMilliseconds": now,
        "interface": "http2",
        "environment": "production",
        "connection": 3,
        "peer": "127.0.0.1:51724",
        "credential": "key ABC123DEFG of team TEAM123456",
        "method": "POST",
        "path": f"/3/device/{token(3)}",
        "headers": [
            [":method", "POST"],
            [":path", f"/3/device/{token(3)}"],
            ["apns-topic", TOPIC],
            ["apns-push-type", kind],
        ],
        "token": token(3),
        "device": "phone",
        "topic": TOPIC,
        "pushType": kind,
        "priority": 10,
        "expiration": None,
        "collapseID": None,
        "apnsID": f"123E4567-E89B-12D3-A456-{number:012X}",
        "uniqueID": f"9B2E4567-E89B-12D3-A456-{number:012X}",
        "command": None,
        "identifier": None,
        "verdict": verdict,
        "violations": violations,
        "states": [{"state": state, "atMilliseconds": now + after, "cause": cause} for state, after, cause in states],
        "curl": f"curl --http2 'https://localhost:2197/3/device/{token(3)}'",
        **push,
    }


def bad():
    """Pushes that try to break the page or make it show something false. The title of each names it."""

    def alert(title, body=""):
        return with_payload({"aps": {"alert": {"title": title, "body": body}}})

    markup = '<img src=x onerror="window.broken=1"><script>window.broken=1</script><b>bold</b>&amp;'
    broken = b'{"aps":{"alert":"caf\xe9 \xff\xfe"}}'
    yield alert("markup " + markup, markup)
    yield alert("override \u202egnp.exe\u202c", "isolate \u2067abc without its end, \u202eand an override")
    yield alert("שלום עולם", "مرحبا بالعالم 123 (ok)")
    yield alert("emoji 👩‍👩‍👧‍👦 🏳️‍🌈 🇨🇭 👍🏽", "e\u0301" + "\u0335" * 60)
    yield alert("long " + "W" * 4000, "x" * 4000)
    yield alert("lines", "one\ntwo\r\nthree\u2028four\u0000five\u001b[31mred")
    yield {
        **with_payload(broken.decode("utf-8", "replace")),
        "payloadBase64": base64.b64encode(broken).decode(),
        "payloadBytes": len(broken),
        "shown": None,
        "preview": None,
    }
    yield with_payload("[" * 2000 + "]" * 2000)
    yield {
        **with_payload('{"aps":{"badge":12345678901234567890,"badge":1.0e400,"a":"\\ud800"}}'),
        "preview": None,
        "shown": None,
    }
    yield {**with_payload("", payloadBytes=0), "preview": None, "shown": None, "pushType": None}
    yield {
        **alert("header"),
        "topic": markup,
        "collapseID": "\u202e" + markup,
        "headers": [["apns-topic", markup], ["x-\u202e", "\u0007"]],
        "violations": [{"rule": markup, "severity": "error", "message": markup, "path": markup}],
        "verdict": {
            "status": 400,
            "accepted": False,
            "reason": markup,
            "explanation": markup,
            "notes": [markup],
            "fault": markup,
        },
    }


def of(body, answer):
    """The push for a request of the composer."""
    try:
        payload = json.loads(body["payload"])
    except ValueError:
        payload = body["payload"]
    push = with_payload(payload)
    push.update(
        {
            "payloadText": body["payload"],
            "topic": body["topic"],
            "channel": body.get("channel"),
            "pushType": body["pushType"],
            "priority": body["priority"],
            "device": body.get("device"),
            "collapseID": body.get("collapseID"),
            "environment": body["environment"],
        }
    )
    if "token" in body:
        push["token"] = body["token"]
    return {**push, **({"verdict": answer, "shown": None, "states": []} if answer else {})}


def device(id, language="en"):
    tokens = [
        {"topic": TOPIC + suffix, "environment": environment, "token": token(len(id) + index + len(environment))}
        for index, suffix in enumerate(["", ".voip", ".push-type.liveactivity"])
        for environment in ("production", "development")
    ]
    return {
        "id": id,
        "name": id,
        "deviceID": "5F1E",
        "online": True,
        "connected": {"production": True, "development": True},
        "power": "active",
        "language": language,
        "notifications": True,
        "apps": {TOPIC: "installed"},
        "badges": {},
        "tokens": tokens,
        "channels": [],
        "shown": 0,
        "activities": 0,
    }


def activity(id, **parts):
    return {
        "id": id,
        "topic": f"{TOPIC}.push-type.liveactivity",
        "environment": "production",
        "state": "active",
        "token": token(100 + id),
        "channel": None,
        "attributesType": "MatchAttributes",
        "attributes": {"home": "Basel"},
        "contentState": {"score": "0:0"},
        "relevance": 0,
        "timestamp": 1_700_000_000,
        "staleDate": None,
        "startedAtSeconds": 1_700_000_000,
        "endedAtSeconds": None,
        "dismissedAtSeconds": 1_700_043_200,
        "history": [event("started", 0, title="Kick-off")],
        **parts,
    }


CHANNEL = "AAEC/wQFBgcICQoLDA0OAQ=="


def channel(id=CHANNEL, environment="production", storage="newest"):
    figures = {"published": 7, "delivered": 1203, "subscriptions": 401}
    made = {"topic": TOPIC, "environment": environment, "storage": storage}
    return {"channel": id, **made, "createdMilliseconds": 1_700_000_000_000, **figures}


def event(kind, after, **parts):
    """An entry of an activity's history."""
    empty = dict.fromkeys(["timestamp", "contentState", "title", "body", "reason"])
    return {**empty, "kind": kind, "atSeconds": 1_700_000_000 + after, **parts}


def devices():
    return [device("phone"), device("tablet", "de")]


def report(pushes):
    rules = {}
    for push in pushes:
        for violation in push["violations"]:
            rule = rules.setdefault(
                violation["rule"],
                {
                    "rule": violation["rule"],
                    "severity": violation["severity"],
                    "source": "Sending notification requests to APNs",
                    "count": 0,
                    "pushes": [],
                },
            )
            rule["count"] += 1
            if len(rule["pushes"]) < 20:
                rule["pushes"].append(
                    {
                        "number": push["number"],
                        "message": violation["message"],
                        "path": violation["path"],
                        "topic": push["topic"],
                        "apnsID": push["apnsID"],
                        "receivedMilliseconds": push["receivedMilliseconds"],
                    }
                )
    counts = {
        severity: sum(rule["count"] for rule in rules.values() if rule["severity"] == severity)
        for severity in ("error", "warning", "note")
    }
    return {"counts": counts, "rules": list(rules.values())}


def status(world):
    snippets = [
        {"name": name, "language": "sh", "text": f"# {name}\nhost=localhost\nport=2197\nkey=/tmp/apus/AuthKey.p8\n"}
        for name in ("curl", "Python, aioapns", "Go, apns2", "Java, Pushy", "Swift, APNSwift")
    ]
    return {
        "version": "0.1.0",
        "mode": "lenient",
        "topics": [TOPIC],
        "team": "TEAM123456",
        "keyID": "ABC123DEFG",
        "files": {
            "key": "/tmp/apus/AuthKey.p8",
            "authority": "/tmp/apus/service.crt",
            "certificate": None,
            "data": "/tmp/apus",
        },
        "addresses": {
            "provider": {"production": "localhost:2197", "development": "localhost:2198"},
            "console": "http://127.0.0.1:8026/",
        },
        "snippets": snippets,
        "clock": {"now": world.now(), "offsetMilliseconds": world.offset},
        "counts": {"received": world.last, "kept": len(world.pushes), "bytes": 1_234_567, "refused": 3},
        "limits": {"keep": 10_000, "keepBytes": 64_000_000},
        "startedMilliseconds": world.now() - 65_000,
        "uptimeMilliseconds": 65_000,
        "readyMilliseconds": 412,
        "memoryBytes": 61_000_000,
    }
