"""A device of the Apus push notification service.

`enrol` gets a certificate, `Client` stays connected and receives notifications.
"""

from .changes import SubscriptionRefused
from .channels import Subscription, SubscriptionStatus
from .client import Client, Refused, TokenRefused
from .connection import Address, CertificateRejected, Ended, Service
from .enrolment import EnrolmentRefused, Reason, enrol
from .identity import Identity
from .messages import PushType, State, Status, Topics
from .notification import Notification

__all__ = [
    "Address", "CertificateRejected", "Client", "Ended", "EnrolmentRefused", "Identity", "Notification", "PushType",
    "Reason", "Refused", "Service", "State", "Status", "Subscription", "SubscriptionRefused", "SubscriptionStatus",
    "TokenRefused", "Topics", "enrol",
]
