import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

// A device at an edge whose node stops or fails: the next one goes on with its connection.

extension CourierConnection {
  /// Tells the edge who the device is, for the next node.
  func keep(_ identity: DeviceIdentity) {
    guard let linked = connection.linked else { return }
    var bytes: [UInt8] = []
    bytes.append(baseToken)
    identity.encode(to: &bytes)
    linked.keep(.identity, bytes.span)
  }

  /// Tells the edge what the device has said of itself, for the next node.
  func keepSession() {
    guard let linked = connection.linked, let power = device?.session?.power else { return }
    let bytes = DeviceSessionState(power: power, idleSeconds: idleSeconds).bytes
    linked.keep(.session, bytes.span)
  }

  /// Goes on where another node has stopped. The device learns nothing of it.
  func resume(_ resumed: ResumedDevice) {
    do throws(DeviceRefusal) {
      // A connection that the device has made since then is the newer one.
      guard try join(resumed.identity, mayTakeOver: false) != nil else { return }
    } catch {
      connection.audit(.deviceRefused, device: error.device, reason: error.kind)
      return end(reason: error.advice ?? error.description)
    }
    guard let device else { return }
    (baseToken, earlyAnswers) = (resumed.baseToken, EarlyAnswers())
    stage = .awaitingFilter
    adviseRenewal()
    context.log.lazily(.info, "device connection resumed") {
      context.fields(of: device.key.id) + [
        .text("peer", connection.peer.description), .text("protocol", dialect.name.description),
      ]
    }
    if let session = resumed.session {
      idleSeconds = session.idleSeconds
      shard.setPower(session.power, device)
    }
    let fields = resumed.filterFields
    do throws(CourierFault) { _ = filter(try CourierFilter(decoding: fields.span), device) } catch {
      fail(error)
    }
  }

  /// Whether a device answers for what only another node has sent.
  func isEarly(_ acknowledgement: CourierAcknowledgement, _ device: Device) -> Bool {
    guard earlyAnswers != nil, device.session?.isInFlight(acknowledgement.messageID) != true else {
      return false
    }
    earlyAnswers?.note(acknowledgement)
    return true
  }

  /// What the device has need not be sent once more.
  func applyEarlyAnswers(_ device: Device) {
    guard earlyAnswers?.areNew == true, device.session?.holdsAllStored == true else { return }
    earlyAnswers?.apply { answer in
      shard.acknowledgeWaiting(
        device, messageID: answer.messageID, status: answer.status.rawValue)
    }
  }

  /// The service stops: the next node goes on with a device at an edge. False for others.
  func release() -> Bool {
    guard stage == .serving, let linked = connection.linked, !linked.isStopping else {
      return false
    }
    sendOutput()
    if isSettled { linked.handled(exceptLast: framer.partialBytes) }
    leaveShard()
    stage = .over
    linked.release()
    connection.abort()
    return true
  }
}

extension Connection {
  /// What the peer of a courier listener has negotiated.
  var courierDialect: CourierALPN? {
    tls.negotiatedProtocol.flatMap { CourierALPN(Array($0.utf8).span) }
  }
}
