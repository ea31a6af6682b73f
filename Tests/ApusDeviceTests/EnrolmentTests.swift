import ApusDevice
import ApusDirectory
import ApusEnrolment
import ApusLoop
import ApusModel
import ApusServer
import ApusTrust
import ApusWire
import Foundation
import Synchronization
import Testing

@Suite("A device gets its certificate and renews it", .timeLimit(.minutes(30)))
struct DeviceEnrolmentTests {
  private var now: Int64 { EventLoop.wallClockMilliseconds() / 1000 }

  private func code(_ live: LiveService) throws -> String {
    try live.data.enrolmentCodes.make(
      .init(name: nil, madeSeconds: now, expiresSeconds: now + 3600, uses: 1)
    ).text
  }

  private func enroll(
    _ live: LiveService, code: String?, port: UInt16? = nil, alternatives: [DeviceAddress] = [],
    authorityPEM: String? = nil,
    keyPEM: String? = nil, whilePending: (@Sendable (Int) -> Void)? = nil
  ) async throws -> DeviceIdentity {
    try await PushDevice.enroll(
      host: "localhost", port: port ?? live.address(.courier).port, alternatives: alternatives,
      authorityPEM: authorityPEM ?? String(decoding: live.authorityPEM, as: UTF8.self), code: code,
      name: "phone", keyPEM: keyPEM, whilePending: whilePending)
  }

  private func configuration(
    _ live: LiveService, _ identity: DeviceIdentity
  ) throws -> DeviceConfiguration {
    DeviceConfiguration(
      host: "localhost", port: live.address(.courier).port,
      authorityPEM: String(decoding: try live.authorityPEM, as: UTF8.self),
      certificatePEM: identity.certificatePEM, keyPEM: identity.keyPEM,
      topics: DeviceTopics(enabled: [LiveService.topic]))
  }

  private func expectError(
    _ code: DeviceError.Code, sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> DeviceIdentity
  ) async {
    do {
      _ = try await body()
      Issue.record("there is an identity", sourceLocation: sourceLocation)
    } catch let error as DeviceError {
      #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
    } catch {
      Issue.record(error, sourceLocation: sourceLocation)
    }
  }

  // MARK: The first certificate

  @Test("A device enrols at the address that works, and gives up when none does")
  func addresses() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let code = try code(live)
    let dead = DeviceAddress(host: "127.0.0.1", port: 1)
    await expectError(.unreachable) {
      try await enroll(live, code: code, port: 1, alternatives: [dead])
    }
    let identity = try await enroll(
      live, code: code, port: 1,
      alternatives: [dead, DeviceAddress(host: "127.0.0.1", port: live.address(.courier).port)])
    #expect(identity.deviceID?.count == 16)
  }

  @Test("With a code the device enrols immediately, and the code is used up")
  func code() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let code = try code(live)
    let identity = try await enroll(live, code: code.lowercased())
    #expect(identity.deviceID?.count == 16)
    #expect(try #require(identity.expirationSeconds) > now + 700 * 86_400)
    let device = try PushDevice(configuration: configuration(live, identity))
    try device.start()
    _ = try await device.token(for: LiveService.topic)
    await device.stop()
    await expectError(.codeRefused) { try await enroll(live, code: code) }
    await expectError(.codeRefused) { try await enroll(live, code: "0000-0001") }
  }

  @Test("Invalid requests fail immediately")
  func mistakes() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let code = try code(live)
    await expectError(.unreachable) { try await enroll(live, code: code, port: 1) }
    let foreign = try CertificateAuthority.create(
      commonName: "Somebody else", validity: Validity(now: now, days: 1)
    ).certificate.pem
    await expectError(.unreachable) { try await enroll(live, code: code, authorityPEM: foreign) }
    await expectError(.badConfiguration) { try await enroll(live, code: code, authorityPEM: "") }
    await expectError(.badConfiguration) { try await enroll(live, code: code, keyPEM: "no key") }
    // The provider listener has another protocol.
    let port = live.address(.provider).port
    await expectError(.unreachable) { try await enroll(live, code: code, port: port) }
    _ = try await enroll(live, code: code)
  }

  @Test("Without a code the device waits until the operator approves")
  func approved() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let data = live.data
    let key = try DeviceIdentity.makeKey()
    let fingerprint = try DeviceIdentity.fingerprint(ofKey: key)
    let asked = Mutex(0)
    let identity = try await enroll(
      live, code: nil, keyPEM: key,
      whilePending: { seconds in
        guard
          asked.withLock({
            $0 += 1; return $0
          }) == 1
        else { return }
        #expect(seconds >= 5)
        #expect(throws: Never.self) {
          try data.approveEnrolment(
            fingerprint, nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
        }
      })
    #expect(asked.withLock { $0 } == 1)
    #expect(identity.keyPEM == key)
    let device = try PushDevice(configuration: configuration(live, identity))
    try device.start()
    _ = try await device.token(for: LiveService.topic)
    await device.stop()
  }

  @Test("The device gets the operator's rejection, and can stop waiting")
  func rejected() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let data = live.data
    await expectError(.rejected) {
      try await enroll(
        live, code: nil,
        whilePending: { _ in
          #expect(throws: Never.self) {
            _ = try data.rejectEnrolment(try #require(data.pendingEnrolments.all().first).key)
          }
        })
    }
    let (waits, isWaiting) = AsyncStream.makeStream(of: Void.self)
    let (port, authority) = (live.address(.courier).port, try live.authorityPEM)
    let waiting = Task {
      try await PushDevice.enroll(
        host: "localhost", port: port, authorityPEM: String(decoding: authority, as: UTF8.self),
        code: nil, name: "phone", whilePending: { _ in isWaiting.yield() })
    }
    for await _ in waits { break }
    waiting.cancel()
    await #expect(throws: CancellationError.self) { try await waiting.value }
  }

  @Test("After a lost answer the device asks again with the same key and code")
  func lostAnswer() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let proxy = try ForgetfulProxy(to: live.address(.courier).port)
    let identity = try await enroll(live, code: code(live), port: proxy.port)
    #expect(proxy.connections >= 2)
    #expect(try live.data.enrolmentCodes.all().map(\.used) == [1])
    let device = try PushDevice(configuration: configuration(live, identity))
    try device.start()
    _ = try await device.token(for: LiveService.topic)
    await device.stop()
  }

  // MARK: The file

  @Test("The file holds a key first, then the whole identity, readable by its owner only")
  func file() throws {
    let directory = FileManager.default.temporaryDirectory
      .appendingPathComponent("apus-identity-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    let file = DeviceIdentityFile(path: directory.appendingPathComponent("device.pem").path)
    #expect(try file.read() == nil)
    let key = try DeviceIdentity.makeKey()
    try file.write(keyPEM: key)
    #expect(try file.read()?.keyPEM == key)
    #expect(try file.read()?.certificatePEM == nil)
    let authority = try CertificateAuthority.create(
      commonName: "Test", validity: Validity(now: now, days: 1))
    let certificate = try authority.issueDevice(
      deviceID: DeviceID(9), name: "phone", publicKey: PrivateKey(pem: key).publicKey,
      validity: Validity(now: now, days: 1))
    let identity = DeviceIdentity(
      certificatePEM: certificate.pem + authority.certificate.pem, keyPEM: key)
    try file.write(identity)
    #expect(try file.read()?.keyPEM == key)
    #expect(try file.read()?.certificatePEM == identity.certificatePEM)
    #expect(identity.deviceID == "0000000000000009")
    let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions]
    #expect(mode as? Int == 0o600)
    try Data("nothing".utf8).write(to: URL(filePath: file.path))
    #expect(throws: DeviceError.self) { try file.read() }
    let nowhere = DeviceIdentityFile(path: directory.path + "/none/device.pem")
    #expect(throws: DeviceError.self) { try nowhere.write(identity) }
  }

  // MARK: Renewal

  /// In the last third of its life, late enough for every device.
  private func aged(_ live: LiveService) throws -> DeviceIdentity {
    let key = try PrivateKey.generateP256()
    let certificate = try live.data.authority(.devices).issueDevice(
      deviceID: DeviceID(randomID().high), name: "aged", publicKey: key.publicKey,
      validity: Validity(notBefore: now - 100 * 86_400, notAfter: now + 10 * 86_400))
    return DeviceIdentity(certificatePEM: certificate.pem, keyPEM: key.pkcs8PEM)
  }

  private func renewed(_ device: PushDevice) async throws -> DeviceIdentity {
    for await event in device.events {
      switch event {
      case .renewed(let identity): return identity
      case .notRenewed(let reason): throw DeviceTrouble(reason)
      default: continue
      }
    }
    throw DeviceTrouble("the events ended")
  }

  private struct DeviceTrouble: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
  }

  @Test("The device renews immediately during a rotation, and reconnects with the new certificate")
  func renewsEarly() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let old = try live.issueDevice()
    let pair = DeviceIdentity(
      certificatePEM: old.certificate.pem, keyPEM: old.key.pkcs8PEM)
    var configuration = try configuration(live, pair)
    configuration.keepIdentity = { _ in }
    _ = try live.data.rotateAuthority(.devices, nowSeconds: now)
    live.service.reload()
    let device = try PushDevice(configuration: configuration)
    try device.start()
    let new = try await renewed(device)
    #expect(new.deviceID == pair.deviceID)
    let issuer = try live.data.certificates(of: .devices)[0]
    #expect(try Certificate(pem: new.certificatePEM).leads(to: [issuer], for: .client))
    await device.stop()
  }

  @Test(
    "The device renews automatically, stays the same device, and keeps its token",
    arguments: [
      DeviceRenewal.sameKey, .newKey,
    ])
  func renews(renewal: DeviceRenewal) async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let old = try aged(live)
    let kept = Mutex<[DeviceIdentity]>([])
    var configuration = try configuration(live, old)
    configuration.renewal = renewal
    configuration.keepIdentity = { identity in kept.withLock { $0.append(identity) } }
    let device = try PushDevice(configuration: configuration)
    try device.start()
    let new = try await renewed(device)
    let token = try await device.token(for: LiveService.topic)
    await device.stop()
    #expect(kept.withLock { $0 } == [new])
    #expect(new.deviceID == old.deviceID)
    #expect(try #require(new.expirationSeconds) > now + 700 * 86_400)
    #expect((new.keyPEM == old.keyPEM) == (renewal == .sameKey))

    let next = try PushDevice(configuration: self.configuration(live, new))
    try next.start()
    #expect(try await next.token(for: LiveService.topic) == token)
    await next.stop()
    for await event in next.events {
      if case .renewed = event { Issue.record("a fresh certificate was renewed") }
    }
  }

  @Test("An identity that cannot be stored is not used, and renewal can be switched off")
  func notKept() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let old = try aged(live)
    var configuration = try configuration(live, old)
    configuration.keepIdentity = { _ in throw DeviceTrouble("the disk is full") }
    let device = try PushDevice(configuration: configuration)
    try device.start()
    let trouble = await #expect(throws: DeviceTrouble.self) { try await renewed(device) }
    #expect(trouble?.description.contains("the disk is full") == true)
    _ = try await device.token(for: LiveService.topic)
    await device.stop()

    configuration.renewal = .never
    configuration.keepIdentity = { _ in Issue.record("renewed although renewal is off") }
    let still = try PushDevice(configuration: configuration)
    try still.start()
    _ = try await still.token(for: LiveService.topic)
    // The second answer follows everything that the first turn started.
    _ = try await still.token(for: LiveService.topic)
    await still.stop()
  }
}

/// Forwards connections to a local port, and drops the end of the first one: what the service sends after the client
/// has sent twice, which is after the handshake.
final class ForgetfulProxy: Sendable {
  let port: UInt16
  private let count = Mutex(0)
  private let listener: Int32

  var connections: Int { count.withLock { $0 } }

  init(to target: UInt16) throws {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    self.listener = listener
    var address = Self.loopback(0)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let bound = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
        bind(listener, name, length) == 0 && listen(listener, 16) == 0
          && getsockname(listener, name, &length) == 0
      }
    }
    #expect(bound)
    port = UInt16(bigEndian: address.sin_port)
    Thread.detachNewThread { [self] in accept(target) }
  }

  deinit { close(listener) }

  private static func loopback(_ port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    return address
  }

  private func accept(_ target: UInt16) {
    while true {
      let client = Foundation.accept(listener, nil, nil)
      guard client >= 0 else { return }
      let isFirst = count.withLock { count in
        count += 1
        return count == 1
      }
      let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      var address = Self.loopback(target)
      withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
          _ = connect(server, name, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
      Thread.detachNewThread { Self.pass(client, server, forgets: isFirst) }
    }
  }

  private static func pass(_ client: Int32, _ server: Int32, forgets: Bool) {
    defer {
      close(client)
      close(server)
    }
    var spoken = 0
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      var polls = [
        pollfd(fd: client, events: Int16(POLLIN), revents: 0),
        pollfd(fd: server, events: Int16(POLLIN), revents: 0),
      ]
      guard poll(&polls, 2, 60_000) > 0 else { return }
      if polls[0].revents != 0 {
        let got = read(client, &buffer, buffer.count)
        guard got > 0 else { return }
        spoken += 1
        guard write(server, buffer, got) == got else { return }
      }
      if polls[1].revents != 0 {
        let got = read(server, &buffer, buffer.count)
        guard got > 0 else { return }
        if forgets, spoken > 1 { continue }
        guard write(client, buffer, got) == got else { return }
      }
    }
  }
}
