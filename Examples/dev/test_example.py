"""A test suite for a server's pushes, using `apus dev`.

    python3 -m unittest test_example          # with apus on the PATH, or APUS=path/of/apus
    APUS_DEV=http://127.0.0.1:2190 python3 -m unittest test_example     # with a running one
"""

import os
import unittest

from apus_dev import ApusDev, Refused


def send_order_shipped(apns, device, order):
    """The code under test: in your server, your own code with your APNs library."""
    return apns.send({"aps": {"alert": {"title": "On its way", "body": f"Order {order}"}}}, device=device)


class OrderTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        url = os.environ.get("APUS_DEV")
        cls.apns = ApusDev(url) if url else ApusDev.start(os.environ.get("APUS", "apus"))

    @classmethod
    def tearDownClass(cls):
        cls.apns.stop()

    def setUp(self):
        self.apns.clear()
        self.apns.disarm()

    def test_customer_sees_the_order(self):
        send_order_shipped(self.apns, "phone", 42)
        push = self.apns.wait_shown({"body": "Order 42"})
        self.assertEqual(push["shown"]["title"], "On its way")
        self.assertEqual(push["verdict"]["status"], 200)
        self.apns.expect({"device": "phone"}, equal=1)

    def test_refusal_is_told(self):
        self.apns.fault({"type": "respond", "reason": "Unregistered"}, match={"body": "Order 43"}, times=1)
        answer = send_order_shipped(self.apns, "phone", 43)
        self.assertEqual(answer["verdict"]["status"], 410)
        self.assertEqual(send_order_shipped(self.apns, "phone", 43)["verdict"]["status"], 200)

    def test_nothing_is_sent_twice(self):
        send_order_shipped(self.apns, "tablet", 44)
        with self.assertRaises(Refused) as caught:
            self.apns.expect({"body": "Order 44"}, equal=2)
        self.assertEqual(caught.exception.answer["count"], 1)

    def test_phone_that_was_off_gets_it_later(self):
        self.apns.switch("phone", online=False)
        send_order_shipped(self.apns, "phone", 45)
        self.assertIsNone(self.apns.wait({"body": "Order 45"})[0]["shown"])
        self.apns.switch("phone", online=True)
        self.apns.wait_shown({"body": "Order 45"})


if __name__ == "__main__":
    unittest.main()
