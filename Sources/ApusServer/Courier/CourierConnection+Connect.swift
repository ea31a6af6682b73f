import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTLS
import ApusTrust
import ApusWire

extension CourierConnection {
  // MARK: Connect

  /// The first frame: a connect message, or a request for a certificate to connect with. Anything else ends the
  /// connection.
  func connect(_ command: UInt8, _ fields: Span<UInt8>) throws(CourierFault) {
    if command == CourierCommand.enrolmentRequest.rawValue, dialect.allowsExtensions,
      connection.tls.peerCertificateDER == nil
    {
      return enrol(try CourierEnrolmentRequest(decoding: fields))
    }
    guard command == CourierCommand.connect.rawValue else {
      return end(reason: "the first frame is not a connect message")
    }
    let connect = try CourierConnect(decoding: fields)
    let identity: DeviceIdentity
    do throws(DeviceRefusal) {
      identity = try DeviceIdentity(
        connect, dialect: dialect, tlsCertificateDER: connection.tls.peerCertificateDER,
        verified: connection.listener.authorities, trust: context.trust, replays: context.replays,
        nowMilliseconds: context.wallMilliseconds,
        allowsInBand: context.configuration.allowsInBandCertificates)
    } catch {
      return refuse(error)
    }
    context.expiries.deviceAccepted(identity.device, notAfter: identity.notAfter)
    let arrival = HandedOverDevice(dialect, identity, presentedToken: connect.token)
    if !context.decides(about: identity.device) {
      // The certificate stays until that node has it.
      CourierFrame.append(command, fields, to: &arrival.connectFrame)
    } else {
      connection.tls.forgetPeerCertificate()
    }
    self.arrival = arrival
    stage = .handingOver
    connection.leaveAsDevice()
  }

  /// "Status 2 only for authentication failure. On refusal: send, flush, close."
  func refuse(_ refusal: DeviceRefusal) {
    connection.logLimited(.notice, .deviceRefused) {
      [.text("peer", connection.peer.description), .text("reason", refusal.description)]
    }
    connection.audit(.deviceRefused, device: refusal.device, reason: refusal.kind)
    CourierConnectResponse(
      status: .refused, token: nil, serverMilliseconds: UInt64(max(0, context.wallMilliseconds)),
      badNonceServerMilliseconds: refusal.isAboutTime
        ? UInt64(max(0, context.wallMilliseconds)) : nil,
      explanation: dialect.allowsExtensions ? refusal.advice ?? "" : ""
    ).encode(to: &output)
    stage = .over
    connection.markDirty()
    connection.close()
  }

  /// One connect message a connection: several users on one are not supported.
  func refuseSecondConnect() {
    connection.logLimited(.notice, .secondConnect) {
      context.fields(of: device?.key.id)
    }
    CourierConnectResponse(
      status: .refused, token: nil, serverMilliseconds: UInt64(max(0, context.wallMilliseconds))
    ).encode(to: &output)
    end(reason: "the device sent a second connect message")
  }

  func begin(_ identity: DeviceIdentity, presentedToken: DeviceToken?) {
    let joined: Device?
    do throws(DeviceRefusal) { joined = try join(identity, mayTakeOver: true) } catch {
      return refuse(error)
    }
    guard let key = joined?.key else { return }
    // The token is a function of the device, so the right one is the only one: a client that presented another learns
    // that it changed.
    baseToken = context.sealer.seal(
      TokenClaims(
        device: key.id, topic: TopicKey(app: .base), environment: key.environment, generation: 0))
    CourierConnectResponse(
      status: .accepted, token: baseToken,
      serverMilliseconds: UInt64(max(0, context.wallMilliseconds)), hint: hint
    ).encode(to: &output)
    stage = .awaitingFilter
    keep(identity)
    adviseRenewal()
    context.log.lazily(.info, "device connected") {
      context.fields(of: key.id) + [
        .text("peer", connection.peer.description), .text("protocol", dialect.name.description),
        .truth("resumed", connection.tls.isResumed),
        .truth("token_changed", presentedToken != nil && presentedToken != baseToken),
      ]
    }
  }

  /// Makes the device known as connected here. Nil where the connection has ended instead.
  func join(
    _ identity: DeviceIdentity, mayTakeOver: Bool
  ) throws(DeviceRefusal) -> Device? {
    let key = DeviceKey(id: identity.device, environment: connection.listener.environment)
    // The snapshot may have changed while the connection came over from another worker.
    try identity.requireTrusted(context.trust)
    certificate = identity.standing
    presented = identity.presented
    let previous: Device
    do throws(StoreError) { previous = try shard.memory.recall(key) } catch {
      unreadable(key, error)
      return nil
    }
    if previous.retiredMilliseconds != nil { throw .retired(key.id) }
    // A replaced key is not accepted: its owner restored a backup, or stole it. Until the new key was used, the old one
    // is valid, since the device may not have received or saved the new one.
    if previous.keyFingerprint != identity.keyFingerprint,
      identity.issuedSeconds < previous.issuedSeconds
    {
      throw .superseded(key.id)
    }
    if previous.session != nil, !makeWay(previous, mayTakeOver) { return nil }
    let isFirst = previous.keyFingerprint.isEmpty
    do throws(StoreError) {
      device = try shard.connect(
        key, fingerprint: identity.keyFingerprint, issuedSeconds: identity.issuedSeconds,
        slot: connection.slot)
    } catch {
      unreadable(key, error)
      return nil
    }
    context.reportConnected(key, isFirst: isFirst)
    return device
  }

  /// Ends the device's other connection, or this one.
  private func makeWay(_ previous: Device, _ mayTakeOver: Bool) -> Bool {
    if mayTakeOver { return takeOver(from: previous) }
    end(reason: "the device reconnected")
    return false
  }

  private func unreadable(_ key: DeviceKey, _ error: StoreError) {
    context.logUnreadable(.record, of: key.id, error)
    end(reason: "the service cannot read its store")
  }

  /// Where a device at an edge reaches this node; empty for others.
  private var hint: String {
    guard connection.linked != nil, dialect.allowsExtensions,
      let host = context.configuration.advertisedHost,
      let port = connection.listener.addresses.first?.port
    else { return "" }
    return HostPort(host: host, port: port).description
  }

  /// "The new one wins", but two holders of one identity must not fight for ever.
  func takeOver(from device: Device) -> Bool {
    let old = connection.table.connection(at: device.connectionSlot)
    // Two workers may hand over connections of one device in another order than they accepted them.
    if let old, old.acceptedMilliseconds > connection.acceptedMilliseconds {
      end(reason: "the device reconnected")
      return false
    }
    guard
      Device.takeoverLimit.take(
        from: &device.takeovers, atMilliseconds: Int64(context.loop.nowMilliseconds))
    else {
      context.ended.count(.takeovers)
      connection.logLimited(.warning, .tooManyTakeovers) {
        context.fields(of: device.key.id)
      }
      end(reason: "several clients use this device's identity")
      return false
    }
    context.log.lazily(.info, "device took over") { context.fields(of: device.key.id) }
    (old?.driver as? CourierConnection)?.displace()
    return true
  }
}
