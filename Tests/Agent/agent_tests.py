"""apus-agent with a real service. As root, because commands act for other users."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent import AS_NOBODY, TOPIC, Agent, Program, Service, lines, wait_for  # noqa: E402

PROGRAMS = os.environ.get("APUS_PROGRAMS", ".build/debug")


class Case(unittest.TestCase):
    """Each test has a service, and agents that are stopped after it."""

    def setUp(self):
        self.service = Service(PROGRAMS)
        self.addCleanup(self.service.close)
        self.prepare()
        self.service.start()

    def prepare(self):
        """Before the service starts."""

    def agent(self, configuration, **options):
        agent = Agent(self.service, configuration, **options)
        self.addCleanup(agent.close)
        return agent

    def script(self, agent, name, text):
        """A command that everybody may run, and files that it may write to."""
        with open(agent.path(name), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text.replace('FOLDER', agent.folder)}\n")
        os.chmod(agent.path(name), 0o755)
        out = agent.path("out")
        if not os.path.exists(out):
            with open(out, "w", encoding="utf-8"):
                pass
            os.chmod(out, 0o666)
        return out


RUN = f"[topic {TOPIC}]\nrun = FOLDER/command fixed\nuser = nobody\n"


class RunTests(Case):
    def test_a_command_gets_payload_and_fields_and_no_rights(self):
        agent = self.agent(RUN)
        out = self.script(
            agent, "command",
            'exec >> FOLDER/out; echo "user $(id -un) groups $(id -Gn) arguments $*"; echo "stdin $(cat)"\n'
            'echo "fields $APUS_NOTIFICATION_ID $APUS_NOTIFICATION_TOPIC $APUS_NOTIFICATION_BODY"\n'
            "grep -E 'CapPrm|CapEff|CapInh|CapAmb|NoNewPrivs' /proc/self/status; echo descriptors $(ls /proc/self/fd)\n"
            'env | cut -d= -f1 | grep -v APUS_NOTIFICATION_ | sort | tr "\\n" " "; echo')
        agent.start().connected()
        payload = '{"aps":{"alert":"$(reboot) `id`; rm"}}'
        identifier = self.service.send(agent.token(), payload)
        self.assertEqual(agent.outcome(identifier), "run: exit code 0")
        said = lines(out)
        self.assertEqual(said[0], "user nobody groups nogroup arguments fixed")
        self.assertEqual(said[1], f"stdin {payload}")
        self.assertEqual(said[2], f"fields {identifier} {TOPIC} $(reboot) `id`; rm")
        for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"]:
            self.assertIn(f"{name}:\t0000000000000000", said)
        self.assertIn("NoNewPrivs:\t1", said)
        # The last one is the folder that `ls` reads.
        self.assertIn("descriptors 0 1 2 3", said)
        self.assertEqual(said[-1].split(), ["HOME", "LANG", "LOGNAME", "PATH", "PWD", "USER"])

    def test_the_exit_code_decides(self):
        agent = self.agent(RUN + "timeout = 1\n")
        out = self.script(
            agent, "command",
            'echo "$APUS_NOTIFICATION_BODY" >> FOLDER/out\n'
            'case $APUS_NOTIFICATION_BODY in final) exit 3;; hang) sleep 100 & wait;; killed) kill -9 $$;; esac\n'
            '[ "$(grep -c again FOLDER/out)" = 2 ] || [ "$APUS_NOTIFICATION_BODY" != again ] || exit 75')
        agent.start().connected()
        token = agent.token()
        expected = {"final": "run: exit code 3", "again": "run: exit code 0", "hang": "run: timed out",
                    "killed": "run: signal 9"}
        sent = {body: self.service.send(token, {"aps": {"alert": body}}) for body in expected}
        for body, outcome in expected.items():
            self.assertEqual(agent.outcome(sent[body]), outcome)
        self.assertEqual(sorted(lines(out)), ["again", "again", "final", "hang", "killed"])

    def test_no_more_commands_run_than_allowed(self):
        agent = self.agent(RUN + "limit = 2\n")
        out = self.script(
            agent, "command",
            "echo 1 >> FOLDER/out; while [ ! -e FOLDER/go ]; do sleep 0.05; done; echo 0 >> FOLDER/out")
        agent.start().connected()
        token = agent.token()
        sent = [self.service.send(token, {"aps": {"alert": str(number)}}) for number in range(4)]
        wait_for("two commands", lambda: agent.status().get("running") == 2 and lines(out) == ["1", "1"])
        # The other two wait; an agent that started them would have done so by now.
        self.assertEqual(agent.status()["open"], 4)
        with open(agent.path("go"), "w", encoding="utf-8"):
            pass
        for identifier in sent:
            self.assertEqual(agent.outcome(identifier), "run: exit code 0")
        self.assertEqual((lines(out).count("1"), lines(out).count("0")), (4, 4))

    def test_a_missing_command_loses_nothing(self):
        agent = self.agent(RUN)
        agent.start().connected()
        identifier = self.service.send(agent.token(), {"aps": {"alert": "wait"}})
        wait_for("attempt", lambda: "no such file" in agent.logged())
        self.script(agent, "command", "true")
        self.assertEqual(agent.outcome(identifier), "run: exit code 0")


class KillTests(Case):
    def killed(self, rule):
        """An agent that was killed while its command ran, and started again."""
        agent = self.agent(RUN + rule)
        out = self.script(
            agent, "command",
            'echo "$APUS_NOTIFICATION_ID" >> FOLDER/out; while [ ! -e FOLDER/go ]; do sleep 0.05; done')
        agent.start().connected()
        identifier = self.service.send(agent.token(), {"aps": {"alert": "once"}})
        wait_for("command", lambda: lines(out) == [identifier])
        agent.kill()
        with open(agent.path("go"), "w", encoding="utf-8"):
            pass
        agent.start().connected()
        return agent, out, identifier

    def test_a_command_that_had_started_does_not_run_again(self):
        agent, out, identifier = self.killed("")
        self.assertEqual(agent.outcome(identifier), "run: interrupted")
        self.assertEqual(lines(out), [identifier])

    def test_or_does_if_so_configured(self):
        agent, out, identifier = self.killed("after-kill = run-again\n")
        self.assertEqual(agent.outcome(identifier), "run: exit code 0")
        self.assertEqual(lines(out), [identifier, identifier])

    def test_what_was_handled_is_only_acknowledged_again(self):
        agent = self.agent(RUN)
        out = self.script(agent, "command", 'echo "$APUS_NOTIFICATION_ID" >> FOLDER/out')
        agent.start().connected()
        token = agent.token()
        first = self.service.send(token, {"aps": {"alert": "1"}})
        agent.outcome(first)
        agent.kill()
        agent.start().connected()
        # The same id in another push: as if the acknowledgement had been lost.
        self.service.send(token, {"aps": {"alert": "1"}}, "--id", first)
        second = self.service.send(token, {"aps": {"alert": "2"}})
        agent.outcome(second)
        self.assertEqual(lines(out), [first, second])


class TopicTests(Case):
    OTHER = "com.example.other"

    def prepare(self):
        self.service.apus("app", "--add", self.OTHER, "--json")

    def test_equal_ids_of_two_topics_are_two_notifications(self):
        agent = self.agent(RUN + RUN.replace(TOPIC, self.OTHER))
        out = self.script(agent, "command", 'echo "$APUS_NOTIFICATION_TOPIC" >> FOLDER/out')
        agent.start().connected()
        first = self.service.send(agent.token(), {"aps": {"alert": "1"}})
        agent.outcome(first)
        self.service.send(agent.token(self.OTHER), {"aps": {"alert": "2"}}, "--id", first, topic=self.OTHER)
        wait_for("both", lambda: lines(out) == [TOPIC, self.OTHER])

    def test_a_topic_without_an_app_is_asked_for_once(self):
        agent = self.agent(RUN + RUN.replace(TOPIC, "com.example.nobody"))
        self.script(agent, "command", "true")
        agent.start().connected()
        for number in range(5):
            agent.outcome(self.service.send(agent.token(), {"aps": {"alert": str(number)}}))
        self.assertEqual(agent.logged().count("the service has no app of this topic"), 1, agent.logged())


class EnrolmentTests(Case):
    def test_by_approval_and_kept(self):
        agent = self.agent(f"[topic {TOPIC}]\nwrite = FOLDER/file\n", code=False)
        agent.start()
        waiting = wait_for("request", lambda: agent.status().get("state") == "enrolling" and self.service.apus(
            "device", "pending", "--json"))
        self.service.apus("device", "approve", waiting["key"][:12], "--json")
        device = agent.connected().status()["device"]
        agent.kill(signal.SIGTERM)
        agent.start().connected()
        self.assertEqual(agent.status()["device"], device)
        self.assertEqual(os.stat(f"{agent.state}/identity.pem").st_mode & 0o777, 0o600)

    def test_enrols_and_connects_at_the_address_that_works(self):
        agent = self.agent(f"[topic {TOPIC}]\nwrite = FOLDER/file\n", host="127.0.0.1:1, 127.0.0.1")
        status = agent.start().connected().status()
        self.assertEqual(status["service"], f"127.0.0.1:1, 127.0.0.1:{self.service.ports['courier']}")
        self.assertTrue(status["device"])

    def test_the_certificate_is_renewed_and_kept(self):
        agent = self.agent(f"[topic {TOPIC}]\nwrite = FOLDER/file\n")
        device = agent.start().connected().status()["device"]
        with open(f"{agent.state}/identity.pem", encoding="utf-8") as file:
            former = file.read()
        self.service.apus("rotate", "device-authority", "--json")
        # A certificate of the second of the rotation counts as one of the former authority.
        time.sleep(1.1)
        # The service advises a device that connects; it reads its folder within a second.
        def renewed():
            if "certificate renewed" not in agent.logged():
                agent.kill()
                agent.start().connected()
                time.sleep(2)
            return "certificate renewed" in agent.logged()
        wait_for("renewal", renewed)
        with open(f"{agent.state}/identity.pem", encoding="utf-8") as file:
            self.assertNotEqual(file.read(), former)
        agent.kill()
        agent.start().connected()

        # The service may still be writing that the device came with the new one; after it only that is accepted.
        def finished():
            try:
                return self.service.apus("rotate", "device-authority", "--finish", "--json")
            except AssertionError:
                return None
        wait_for("end of the former authority", finished)
        agent.kill()
        self.assertEqual(agent.start().connected().status()["device"], device)

    def test_with_a_code_from_a_file(self):
        code = self.service.apus("code", "--name", "machine", "--json")["code"]
        agent = self.agent(f"[topic {TOPIC}]\nwrite = FOLDER/file\n", code=False, extra="code-file = CODE\n")
        agent.head = agent.head.replace("CODE", agent.path("code"))
        agent.configure(f"[topic {TOPIC}]\nwrite = FOLDER/file\n")
        with open(agent.path("code"), "w", encoding="utf-8") as file:
            file.write(code.lower() + "\n")
        agent.start().connected()

    def test_the_service_manager_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.addCleanup(manager.close)
            manager.bind(f"{folder}/notify")
            manager.settimeout(60)
            agent = self.agent(
                f"[topic {TOPIC}]\nwrite = FOLDER/file\n", environment={"NOTIFY_SOCKET": f"{folder}/notify"})
            agent.start()
            told = []
            while "READY=1\nSTATUS=connected" not in told:
                told.append(manager.recv(4096).decode())
            self.assertTrue(told[0].startswith("READY=1\nSTATUS="))
            agent.process.send_signal(signal.SIGHUP)
            while not told[-1].startswith("RELOADING=1"):
                told.append(manager.recv(4096).decode())
            agent.process.send_signal(signal.SIGTERM)
            while not told[-1].startswith("STOPPING=1"):
                told.append(manager.recv(4096).decode())
            self.assertEqual(agent.process.wait(30), 0)

    def test_two_agents_do_not_share_a_state(self):
        agent = self.agent(f"[topic {TOPIC}]\nwrite = FOLDER/file\n")
        agent.start().connected()
        second = subprocess.run(agent.command("run"), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(second.returncode, 1)
        self.assertIn("another agent uses", second.stderr)


class ProgramTests(Case):
    def prepare(self):
        self.service.apus("app", "--add", "com.example.tool", "--json")

    def program(self, agent):
        program = Program(agent)
        self.addCleanup(program.close)
        return program

    def test_what_a_program_does_not_acknowledge_goes_to_the_next(self):
        agent = self.agent(f"[topic {TOPIC}]\nforward = root\n")
        agent.start().connected()
        token = agent.token()
        # Nobody reads: the service keeps it.
        self.assertEqual(agent.status()["paused"], [TOPIC])
        sent = self.service.send(token, {"aps": {"alert": "news"}, "own": [1, 2]})
        first = self.program(agent)
        self.assertEqual(first.ask(op="subscribe", topic=TOPIC), {"op": "subscribed", "topic": TOPIC, "token": token})
        got = first.read()
        self.assertEqual((got["op"], got["id"], got["payload"]["own"]), ("notification", sent, [1, 2]))
        first.close()
        second = self.program(agent)
        second.ask(op="subscribe", topic=TOPIC)
        self.assertEqual(second.read()["id"], sent)
        self.assertEqual(second.ask(op="acknowledge", id=sent), {"op": "acknowledged", "id": sent})
        self.assertIn("forward: acknowledged by user 0, process ", agent.outcome(sent))

    def test_a_program_may_register_only_what_its_user_may(self):
        agent = self.agent("[user nobody]\ntopics = com.example.tool, org.example.*\n[topic " + TOPIC
                           + "]\nforward = root\n")
        agent.start().connected()

        def as_nobody(*arguments):
            done = subprocess.run(
                AS_NOBODY + agent.command(arguments[0], "--socket", agent.socket, *arguments[1:]),
                capture_output=True, text=True, timeout=60, check=False)
            return done.returncode, done.stdout + done.stderr

        code, token = as_nobody("register", "com.example.tool")
        self.assertEqual((code, len(token.strip())), (0, 64), token)
        self.assertEqual(as_nobody("tokens")[1], f"com.example.tool  {token}")
        code, text = as_nobody("register", TOPIC)
        self.assertEqual(code, 1)
        self.assertIn(f"does not allow user 65534 the topic {TOPIC}", text)
        # Allowed by agent.conf, and unknown to the service.
        code, text = as_nobody("register", "org.example.none")
        self.assertIn("the service has no app of the topic org.example.none", text)
        # It outlives the agent.
        agent.kill()
        agent.start().connected()
        self.assertEqual(agent.token("com.example.tool"), token.strip())
        self.assertEqual(as_nobody("unregister", "com.example.tool")[0], 0)
        self.assertEqual(as_nobody("tokens")[1], "")

    def test_nonsense_harms_only_its_sender(self):
        agent = self.agent(f"[topic {TOPIC}]\nforward = root\n")
        agent.start().connected()
        good, bad = self.program(agent), self.program(agent)
        for line in [b"{}", b"nonsense", b'{"op":"fly"}', b'{"op":"register"}', b'{"op":"history","count":0}',
                     b'{"op":"acknowledge","id":"none"}', b"\xff\xfe", b"[" * 3000]:
            bad.socket.sendall(line + b"\n")
            self.assertEqual(bad.read()["op"], "error", line)
        bad.socket.sendall(b"x" * 5000)
        self.assertIn("longer than 4096 bytes", bad.read()["problem"])
        self.assertEqual(bad.file.read(), b"")
        self.assertEqual(good.ask(op="status")["state"], "connected")

    def test_a_file_and_a_fifo(self):
        agent = self.agent(f"[topic {TOPIC}]\nwrite = FOLDER/fifo\n")
        os.mkfifo(agent.path("fifo"))
        agent.start().connected()
        token = agent.token()
        first = self.service.send(token, {"aps": {"content-available": 1}}, "--push-type", "background", "--priority",
                                  "5")
        wait_for("attempt", lambda: "nobody reads" in agent.logged())
        got = []
        reader = threading.Thread(target=lambda: got.append(lines(agent.path("fifo"))[0]))
        reader.start()
        self.assertEqual(agent.outcome(first), "write: written")
        reader.join(30)
        self.assertIn(f'"id":"{first}"', got[0])
        agent.configure(f"[topic {TOPIC}]\nwrite = FOLDER/file\n")
        agent.process.send_signal(signal.SIGHUP)
        wait_for("reload", lambda: "configuration read again" in agent.logged())
        second = self.service.send(token, {"aps": {"alert": "to a file"}})
        self.assertEqual(agent.outcome(second), "write: written")
        self.assertIn(f'"id":"{second}"', lines(agent.path("file"))[0])

    def test_check_says_where_and_what(self):
        agent = self.agent(f"[topic {TOPIC}]\nrun = /bin/true\nuser = nobody\ntimeout = soon\n")
        done = subprocess.run(agent.command("check"), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 4)
        self.assertIn("agent.conf, line 9: \"soon\" is not a time", done.stderr)
        self.assertIn("Write 90s, 15m or 2h", done.stderr)
        agent.configure(f"[topic {TOPIC}]\nrun = /bin/true\nuser = nobody\n")
        done = subprocess.run(agent.command("check"), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


class Screen:
    """A screen with a session bus and dunst on it, of the user nobody."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="apus-agent-screen-")
        os.chmod(self.folder, 0o777)
        number, self.display = os.pipe()
        self.processes = [subprocess.Popen(
            ["Xvfb", "-displayfd", str(self.display), "-screen", "0", "640x360x24", "-nolisten", "tcp"],
            pass_fds=[self.display], stderr=subprocess.DEVNULL)]
        os.close(self.display)
        with os.fdopen(number) as file:
            self.environment = {"DISPLAY": f":{file.readline().strip()}", "LANG": "de_DE.UTF-8",
                                "HOME": self.folder, "XDG_RUNTIME_DIR": self.folder}
        bus = f"unix:path={self.folder}/bus"
        # Without service files: nothing starts dunst before the test does.
        with open(f"{self.folder}/bus.conf", "w", encoding="utf-8") as file:
            file.write(f'<busconfig><type>session</type><listen>{bus}</listen><auth>EXTERNAL</auth>'
                       '<policy context="default"><allow send_destination="*" eavesdrop="true"/>'
                       '<allow eavesdrop="true"/><allow own="*"/></policy></busconfig>')
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = bus
        self.processes.append(subprocess.Popen(
            AS_NOBODY + ["dbus-daemon", f"--config-file={self.folder}/bus.conf", "--nofork"], env=self.all(),
            stderr=subprocess.DEVNULL))
        wait_for("bus", lambda: os.path.exists(f"{self.folder}/bus"))
        self.dunst = None

    def all(self):
        return {**os.environ, **self.environment}

    def start_dunst(self):
        with open(f"{self.folder}/dunstrc", "w", encoding="utf-8") as file:
            file.write("[global]\nmarkup = full\nfont = DejaVu Sans 11\nwidth = 400\noffset = 20x20\n")
        self.dunst = subprocess.Popen(
            AS_NOBODY + ["dunst", "-config", f"{self.folder}/dunstrc"], env=self.all(), stderr=subprocess.DEVNULL)
        self.processes.append(self.dunst)

    def dunstctl(self, *arguments):
        return subprocess.run(
            AS_NOBODY + ["dunstctl", *arguments], env=self.all(), capture_output=True, text=True, timeout=60,
            check=False).stdout.strip()

    def shown(self):
        """What was shown and is closed now: identifier, application, title and text, the newest first."""
        self.dunstctl("close-all")
        said = wait_for("history", lambda: self.dunstctl("history"))
        return [tuple(entry[key]["data"] for key in ["id", "appname", "summary", "body"])
                for entry in json.loads(said)["data"][0]]

    def picture(self, path):
        """The number of colours on the screen, which is written to a file."""
        subprocess.run(["import", "-window", "root", path], env=self.all(), check=True, timeout=60)
        return int(subprocess.run(["identify", "-format", "%k", path], capture_output=True, text=True, check=True,
                                  timeout=60).stdout)

    def close(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


class ShowTests(Case):
    def test_the_desktop_shows_it(self):
        screen = Screen()
        self.addCleanup(screen.close)
        agent = self.agent(
            f"[topic {TOPIC}]\nshow = yes\napplication = Chat\ndesktop = chat\nstrings = FOLDER/strings\n"
            "category.MESSAGE = reply:Antworten\non-action = FOLDER/chosen\n",
            as_nobody=True, environment=screen.environment)
        os.mkdir(agent.path("strings"), 0o755)
        with open(agent.path("strings/de.json"), "w", encoding="utf-8") as file:
            json.dump({"FROM": "%@ schreibt: %@"}, file)
        chosen = self.script(agent, "chosen", 'echo "$APUS_NOTIFICATION_ACTION $APUS_NOTIFICATION_ID" >> FOLDER/out')
        agent.start().connected()
        token = agent.token()

        def alert(text, **more):
            return {"aps": {"alert": {"title": "Küche", "loc-key": "FROM", "loc-args": ["Ann", text]},
                            "sound": "default", **more}}

        # No desktop yet: the notification waits for one.
        first = self.service.send(token, alert("<b>eins</b> & mehr", badge=3, category="MESSAGE"), "--collapse-id", "a")
        wait_for("attempt", lambda: "tried again" in agent.logged())
        badges = subprocess.Popen(
            AS_NOBODY + ["dbus-monitor", "--session", "interface='com.canonical.Unity.LauncherEntry'"],
            env=screen.all(), stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (badges.kill(), badges.wait(30), badges.stdout.close()))
        screen.start_dunst()
        self.assertIn("show: shown as", agent.outcome(first))
        wait_for("window", lambda: screen.dunstctl("count", "displayed") == "1")
        picture = os.environ.get("APUS_SCREENSHOT", f"{screen.folder}/screen.png")
        wait_for("text on the screen", lambda: screen.picture(picture) > 16)
        screen.dunstctl("action", "0")
        wait_for("action", lambda: lines(chosen) == [f"default {first}"])
        self.assertEqual([entry[1:] for entry in screen.shown()],
                         [("Chat", "Küche", "Ann schreibt: &lt;b&gt;eins&lt;/b&gt; &amp; mehr")])
        # The same collapse id replaces; another one does not. A background push shows nothing.
        second = self.service.send(token, alert("zwei"), "--collapse-id", "b")
        self.assertIn("shown as", agent.outcome(second))
        third = self.service.send(token, alert("drei"), "--collapse-id", "b")
        self.assertEqual(agent.outcome(third), agent.outcome(second))
        silent = self.service.send(
            token, {"aps": {"content-available": 1}}, "--push-type", "background", "--priority", "5")
        self.assertEqual(agent.outcome(silent), "nothing to do")
        self.assertEqual([entry[3] for entry in screen.shown()][:2],
                         ["Ann schreibt: drei", "Ann schreibt: &lt;b&gt;eins&lt;/b&gt; &amp; mehr"])
        said = ""
        while "count-visible" not in said:
            said += badges.stdout.readline()
        self.assertIn("application://chat.desktop", said)
        self.assertIn("int64 3", said)


class ConnectionTests(Case):
    def test_it_returns_when_the_service_does(self):
        agent = self.agent(f"[topic {TOPIC}]\nwrite = FOLDER/file\n")
        agent.start().connected()
        token = agent.token()
        self.service.stop()
        wait_for("end", lambda: agent.status()["state"] == "connecting")
        self.service.start()
        agent.connected()
        self.assertEqual(agent.outcome(self.service.send(token, {"aps": {"alert": "back"}})), "write: written")

    def test_the_program_is_lean(self):
        done = subprocess.run(
            ["ldd", f"{PROGRAMS}/apus-agent"], capture_output=True, text=True, timeout=60, check=True)
        for name in ["rocksdb", "curl", "microhttpd", "Foundation"]:
            self.assertNotIn(name, done.stdout)
        for name in ["libssl", "libuv", "libsystemd"]:
            self.assertIn(name, done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=1)
