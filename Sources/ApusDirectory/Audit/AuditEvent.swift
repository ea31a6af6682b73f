/// The events of the audit log. The raw values appear in its lines and never change their meaning.
package enum AuditEvent: String, Sendable, CaseIterable {
  // Changes by an operator.
  case serviceInitialized = "service.initialized"
  case trustReloaded = "trust.reloaded"
  case trustNotReloaded = "trust.not-reloaded"
  case teamAdded = "team.added"
  case appAdded = "app.added"
  case appChanged = "app.changed"
  case appRemoved = "app.removed"
  case keyAdded = "key.added"
  case keyRevoked = "key.revoked"
  case certificateIssued = "certificate.issued"
  case certificateImported = "certificate.imported"
  case certificateRenewed = "certificate.renewed"
  case certificateRevoked = "certificate.revoked"
  case authorityRotated = "authority.rotated"
  case sealingKeyRotated = "sealing-key.rotated"
  case deviceRetired = "device.retired"
  /// Its name or its tags changed.
  case deviceLabelled = "device.labelled"
  case storeLossAccepted = "store.loss-accepted"
  case storeCopied = "store.copied"
  case nodeAdded = "node.added"
  case nodeDrained = "node.drained"
  case nodeResumed = "node.resumed"
  case devicesDivided = "devices.divided"
  /// The rows of a part of a cluster's devices, to another database.
  case partMoved = "part.moved"
  case nodeRemoved = "node.removed"
  case backupMade = "backup.made"
  case backupRestored = "backup.restored"
  case administratorAdded = "administrator.added"
  case administratorRemoved = "administrator.removed"
  case webhookAdded = "webhook.added"
  case webhookRemoved = "webhook.removed"
  case webhookRotated = "webhook.rotated"

  case channelCreated = "channel.created"
  case channelDeleted = "channel.deleted"

  case relayCommanded = "relay.commanded"

  // Pushes by an operator.
  case notificationSent = "notification.sent"
  case jobCancelled = "job.cancelled"

  // Enrolment of devices.
  case codeMade = "code.made"
  case codeUsed = "code.used"
  case codeWithdrawn = "code.withdrawn"
  case enrolmentPending = "enrolment.pending"
  case enrolmentApproved = "enrolment.approved"
  case enrolmentRejected = "enrolment.rejected"

  // Effects of changes.
  case connectionClosed = "connection.closed"

  // Refused peers and rejected requests.
  case handshakeRefused = "handshake.refused"
  case providerRefused = "provider.refused"
  case requestRefused = "request.refused"
  case deviceRefused = "device.refused"
  case enrolmentRefused = "enrolment.refused"
  case administratorRefused = "administrator.refused"
}
