import ApusModel
import Synchronization

/// What a binary client has done so far.
public struct BinaryStatistics: Sendable, Hashable {
  /// Outcomes delivered, by kind.
  public var accepted = 0
  public var rejected = 0
  public var unknown = 0
  /// Completed TLS handshakes.
  public var connections = 0
  /// Notifications that were reported as accepted after silence and turned out not to be: the silence was too short.
  /// Those that could be resent are not counted.
  public var corrected = 0
}

extension BinaryStatistics: CustomStringConvertible {
  public var description: String {
    "\(accepted) accepted, \(rejected) rejected, \(unknown) unknown, \(corrected) corrected, "
      + "connections made: \(connections)"
  }
}

/// Turns what lanes settle into outcomes, counts them, and delivers them.
final class BinaryReport: Sendable {
  let pending = PendingOutcomes()
  private let counted = Mutex(BinaryStatistics())
  private let onCorrection: (@Sendable (NotificationID, SendOutcome) -> Void)?

  init(onCorrection: (@Sendable (NotificationID, SendOutcome) -> Void)?) {
    self.onCorrection = onCorrection
  }

  var statistics: BinaryStatistics { counted.withLock { $0 } }

  func connectionMade() { counted.withLock { $0.connections += 1 } }

  /// Delivers what a lane has settled.
  func deliver(_ queue: inout SentQueue, _ failure: String) {
    let forgotten = queue.takeForgottenCount()
    if forgotten > 0 { counted.withLock { $0.corrected += forgotten } }
    guard queue.hasSettled else { return }
    var settled: [SentQueue.Settled] = []
    queue.exchangeSettled(&settled)
    count(settled)
    pending.deliver(settled) { Self.outcome($0, failure) }
    for late in settled where late.settlement.isLate {
      onCorrection?(late.id, Self.outcome(late, failure))
    }
    settled.removeAll(keepingCapacity: true)
    queue.exchangeSettled(&settled)
  }

  /// A push that never reached a lane.
  func deliver(_ item: FrameIntake.Item, _ cause: UnknownCause.Code, _ text: String) {
    counted.withLock { $0.unknown += 1 }
    pending.deliver(
      item.ticket, .unknown(UnknownCause(cause, text), retryMayDuplicate: false), id: item.id)
  }

  private func count(_ settled: [SentQueue.Settled]) {
    var (accepted, rejected, unknown, corrected) = (0, 0, 0, 0)
    for one in settled {
      switch one.settlement {
      case .accepted: accepted += 1
      case .rejected: rejected += 1
      case .unknown: unknown += 1
      case .rejectedLate, .lost: corrected += 1
      }
    }
    counted.withLock {
      $0.accepted += accepted
      $0.rejected += rejected
      $0.unknown += unknown
      $0.corrected += corrected
    }
  }

  private static func outcome(
    _ settled: SentQueue.Settled, _ failure: String
  ) -> SendOutcome {
    switch settled.settlement {
    case .accepted: .accepted(apnsID: settled.id, uniqueID: nil)
    case .rejected(let status), .rejectedLate(let status):
      .rejected(PushRejection(binaryStatus: status, apnsID: settled.id))
    case .unknown(let code, let mayBeTaken):
      .unknown(
        UnknownCause(code, code == .cancelled ? "" : failure), retryMayDuplicate: mayBeTaken)
    case .lost: .unknown(UnknownCause(.connectionLost, failure), retryMayDuplicate: true)
    }
  }
}

extension PushRejection {
  /// A rejection by the binary interface, with the reason that the HTTP/2 interface gives in the same case.
  init(binaryStatus: UInt8, apnsID: NotificationID) {
    let reason: Reason? =
      switch BinaryStatus(rawValue: binaryStatus) {
      case .processingError: .internalServerError
      case .missingDeviceToken: .missingDeviceToken
      case .missingTopic: .missingTopic
      case .missingPayload: .payloadEmpty
      case .invalidTokenSize, .invalidToken: .badDeviceToken
      case .invalidTopicSize: .badTopic
      case .invalidPayloadSize: .payloadTooLarge
      case .protocolError: .badRequestPayload
      case .noError, .shutdown, .unknown, nil: nil
      }
    self.init(
      reason: reason.map { RejectionReason($0) } ?? RejectionReason(rawValue: ""),
      status: (reason ?? .internalServerError).status, apnsID: apnsID)
    self.binaryStatus = binaryStatus
  }
}
