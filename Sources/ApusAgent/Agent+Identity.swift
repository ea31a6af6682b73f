import ApusDevice
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

// The identity: from the file, or by enrolment at the first start.

extension Agent {
  func findIdentity() {
    guard state != .stopping else { return }
    do {
      let authority = try StateFiles.readText(configuration.authorityFile)
      guard let authority else {
        throw AgentFault("\(configuration.authorityFile) does not exist")
      }
      guard let stored = try identityFile.read() else {
        let key = try DeviceIdentity.makeKey()
        try identityFile.write(keyPEM: key)
        return try enrol(key, authority)
      }
      guard let certificate = stored.certificatePEM else {
        return try enrol(stored.keyPEM, authority)
      }
      let identity = DeviceIdentity(certificatePEM: certificate, keyPEM: stored.keyPEM)
      if let end = identity.expirationSeconds, end < EventLoop.wallClockMilliseconds() / 1000 {
        // The service would refuse it. The machine enrols again, as a new device.
        log(.warning, "the certificate has expired", .text("identity", "\(identity)"))
        let key = try DeviceIdentity.makeKey()
        try identityFile.write(keyPEM: key)
        return try enrol(key, authority)
      }
      try connect(identity, authority)
    } catch {
      enrolmentFailed("\(error)")
    }
  }

  private func service(_ authority: String) -> DeviceConfiguration {
    var device = DeviceConfiguration(
      host: services[0].host, port: services[0].port, authorityPEM: authority,
      certificatePEM: "", keyPEM: "", topics: DeviceTopics())
    device.alternatives = Array(services.dropFirst())
    return device
  }

  // MARK: Enrolment

  private func enrol(_ key: String, _ authority: String) throws {
    let code = try enrolmentCode()
    let fingerprint = try DeviceIdentity.fingerprint(ofKey: key)
    state = .enrolling(code == nil ? "waits for the operator's approval" : "with a code")
    log(
      .notice, "enrolling", .text("name", configuration.name), .text("key", fingerprint),
      .truth("has_code", code != nil))
    let session = try EnrolmentSession(
      loop: loop, configuration: service(authority), code: code, name: configuration.name,
      tags: configuration.tags, keyPEM: key
    ) { [log] seconds in
      log(
        .notice, "waits for approval: the operator runs `apus device approve`",
        .text("key", fingerprint), .number("asks_again_s", seconds))
    }
    self.session = session
    session.start { [weak self] result in
      guard let self else { return }
      // Its connection is still in its turn.
      after(0) { [weak self] in self?.enrolled(result, authority) }
    }
  }

  private func enrolled(_ result: Result<DeviceIdentity, any Error>, _ authority: String) {
    session = nil
    guard state != .stopping else { return }
    do {
      let identity = try result.get()
      try identityFile.write(identity)
      log(.notice, "enrolled", .text("identity", "\(identity)"))
      try connect(identity, authority)
    } catch {
      enrolmentFailed("\(error)")
    }
  }

  private func enrolmentFailed(_ reason: String) {
    log(
      .error, "no identity", .text("reason", reason),
      .number("tries_again_s", Self.enrolmentRetryMilliseconds / 1000))
    state = .enrolling(reason)
    after(Self.enrolmentRetryMilliseconds) { [weak self] in self?.findIdentity() }
  }

  /// The code from the file or the environment; nil: the operator decides.
  private func enrolmentCode() throws(AgentFault) -> String? {
    guard let path = configuration.codeFile else { return code }
    guard let text = try StateFiles.readText(path) else {
      throw AgentFault("the file of the enrolment code, \(path), does not exist")
    }
    return String(text.filter { !$0.isWhitespace })
  }

  // MARK: Connection

  private func connect(_ identity: DeviceIdentity, _ authority: String) throws {
    noteIdentity(identity)
    let device = service(authority)
    let context = try device.context(identity)
    let connection = DeviceConnection(
      shared: DeviceLoop(loop: loop),
      configuration: .init(
        endpoint: device.endpoint, alternatives: device.otherAddresses, context: context,
        client: .init(
          dialect: .apus, keepAliveMilliseconds: UInt64(search.intervalSeconds) * 1000,
          answerMilliseconds: Self.answerMilliseconds),
        renewal: RenewalPlan(identity, .sameKey)),
      seed: .random(in: .min ... .max), delegate: self)
    self.connection = connection
    state = .connecting("connects for the first time")
    updateConnection()
    connection.start()
  }

  private func noteIdentity(_ identity: DeviceIdentity) {
    deviceID = identity.deviceID
    certificateEnd = identity.expirationSeconds
  }

  /// Stores a renewed identity before it is used.
  func keep(_ identity: DeviceIdentity) -> TLSContext? {
    do {
      guard let authority = try StateFiles.readText(configuration.authorityFile) else {
        throw AgentFault("\(configuration.authorityFile) does not exist")
      }
      let context = try service(authority).context(identity)
      try identityFile.write(identity)
      noteIdentity(identity)
      log(.notice, "certificate renewed", .text("identity", "\(identity)"))
      return context
    } catch {
      log(.error, "certificate not renewed", .text("reason", "\(error)"))
      return nil
    }
  }
}
