import ApusDirectory
import ApusEnrolment
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import ApusWire
import Foundation
import Synchronization
import Testing

@Suite("Devices get certificates with enrolment codes", .timeLimit(.minutes(30)))
struct EnrolmentCodeTests {
  let service: TestService
  var directory: TestDirectory { service.directory }

  init() throws { service = try TestService() }

  @Test("A code enrols one device, which is accepted immediately")
  func works() throws {
    let code = try directory.code()
    let applicant = try Applicant(service)
    let device = try applicant.enrolled(code: code)
    #expect(device.certificate.subject.commonName == "phone")
    #expect(device.certificate.subject.organization == "Apus Devices")
    #expect(!device.certificate.isAuthority)
    let days = (device.certificate.notAfter - TestDirectory.nowSeconds) / 86_400
    #expect((729...730).contains(days))
    let connected = try service.connect(device)
    #expect(connected.baseToken == directory.baseToken(device.id).bytes)
    #expect(try connected.token().count == 64)
  }

  @Test("Old leftovers of an interrupted command are removed at a start, and nothing else")
  func leftovers() throws {
    service.stop()
    let folder = URL(filePath: directory.data.path).appending(path: "enrolment/codes")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let code = try directory.code()
    let old = Date(timeIntervalSinceNow: -7200)
    for (name, date) in [("ab.1.part", old), ("ab.2.part.new", old), ("ab.3.part", Date())] {
      let file = folder.appending(path: name)
      try Data().write(to: file)
      try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file.path)
    }
    let restarted = try TestService(directory)
    defer { restarted.stop() }
    // The queue is processed in order: after this answer, the work of the start is done.
    _ = try Applicant(restarted).enrolled(code: code)
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    #expect(names.filter { $0.contains("part") } == ["ab.3.part"])
    #expect(names.count == 3)
  }

  @Test("The operator's name for the device takes precedence over the device's own")
  func name() throws {
    let code = try directory.code(name: "kitchen")
    #expect(
      try Applicant(service).enrolled(code: code).certificate.subject.commonName == "kitchen")
    let nameless = try Applicant(service)
    let device = try nameless.device(nameless.ask(code: directory.code(), name: nil))
    #expect(device.certificate.subject.commonName == "device")
  }

  @Test("Unknown, used, expired, withdrawn and mistyped codes get the same answer, byte for byte")
  func refused() throws {
    let used = try directory.code()
    let first = try Applicant(service).enrolled(code: used)
    let expired = try directory.code(expiresIn: -1)
    let withdrawn = try directory.code()
    let list = try directory.data.enrolmentCodes.all()
    #expect(list.count == 3)
    let newest = try #require(
      list.first { $0.used == 0 && $0.record.expiresSeconds > $0.record.madeSeconds })
    #expect(try directory.data.enrolmentCodes.withdraw(hash: newest.hash))
    let unknown = "04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205A"
    // All at once, since each has to wait for its time.
    let applicant = try Applicant(service)
    let clients = try [used, expired, withdrawn, unknown, "0000", "not a code"].map {
      try applicant.send(applicant.request(code: $0))
    }
    let answers = try clients.map(Applicant.answer)
    for answer in answers {
      answer.expectRefused(1)
      #expect(answer.bytes == answers[0].bytes)
    }
    #expect(Set(try Self.files(directory)).count == 3, "two codes, and the use of one")
    _ = try service.connect(first)
  }

  /// The file names in the directory of codes.
  private static func files(_ directory: TestDirectory) throws -> [String] {
    try FileManager.default.contentsOfDirectory(
      atPath: directory.data.path + "/enrolment/codes")
  }

  @Test("Only the code's SHA-256 is stored, readable by the service only")
  func kept() throws {
    let code = try directory.code(name: "kitchen")
    _ = try Applicant(service).enrolled(code: code)
    let bare = code.filter { $0 != "-" }
    for name in try Self.files(directory) {
      let path = directory.data.path + "/enrolment/codes/" + name
      let text = try String(contentsOfFile: path, encoding: .utf8)
      #expect(!text.contains(code) && !text.contains(bare))
      let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
      #expect(mode == 0o600)
      #expect(name.prefix(64).allSatisfy { $0.isHexDigit })
    }
  }

  @Test(
    "Simultaneous devices get as many certificates as their code has uses", arguments: [1, 3])
  func race(uses: Int) throws {
    let code = try directory.code(uses: uses)
    let applicants = try (0..<10).map { _ in try Applicant(service) }
    let clients = try applicants.map { try $0.send($0.request(code: code)) }
    let answers = try clients.map(Applicant.answer)
    let accepted = zip(applicants, answers).filter { $1[0x40] == [0] }
    #expect(accepted.count == uses)
    #expect(Set(try accepted.map { try $0.device($1).id }).count == uses)
    for answer in answers where answer[0x40] != [0] { answer.expectRefused(1) }
  }

  @Test("Simultaneous requests with the same key enrol one device")
  func sameKeyAtOnce() throws {
    let code = try directory.code(uses: 5)
    let applicant = try Applicant(service)
    let clients = try (0..<5).map { _ in try applicant.send(applicant.request(code: code)) }
    let answers = try clients.map(Applicant.answer)
    #expect(Set(answers.map(\.bytes)).count == 1)
    _ = try applicant.device(answers[0])
    #expect(try directory.data.enrolmentCodes.all().map(\.used) == [1])
  }

  @Test("A lost answer is repeated: for the same key, after a restart, and after the code expired")
  func lostAnswer() throws {
    let code = try directory.code()
    let applicant = try Applicant(service)
    // Nobody reads the answer.
    let lost = try applicant.send(applicant.request(code: code))
    _ = try lost.expect(0x82)
    lost.tls.reset()
    service.stop()

    let again = try TestService(directory)
    var survivor = try Applicant(again, key: applicant.key)
    let known = try #require(directory.data.enrolmentCodes.all().first)
    let file = directory.data.path + "/enrolment/codes/" + known.hash
    let text = try String(contentsOfFile: file, encoding: .utf8)
    // Expired one second ago, too recently to be removed.
    let over = "expires = \(Int64(Date().timeIntervalSince1970) - 1)"
    try Data(text.replacing("expires = \(known.record.expiresSeconds)", with: over).utf8)
      .write(to: URL(filePath: file))
    let answer = try survivor.ask(code: code)
    #expect(answer[0x43] == lost.received.first?[0x43])
    let device = try survivor.device(answer)
    _ = try again.connect(device)
    survivor.key = try .generateP256()
    try survivor.ask(code: code).expectRefused(1)
  }

  /// The state after a crash: the service must continue without creating a second device.
  @Test("A crash between the use of a code and the answer creates no second device")
  func crash() throws {
    let code = try directory.code()
    let applicant = try Applicant(service)
    let device = try applicant.enrolled(code: code)
    service.stop()
    // An interrupted write leaves a partial file next to the codes.
    let hash = try directory.data.enrolmentCodes.all()[0].hash
    let part = directory.data.path + "/enrolment/codes/\(hash).1.99.part"
    try Data("key = ".utf8).write(to: URL(filePath: part))
    let again = try TestService(directory)
    #expect(try Applicant(again, key: applicant.key).enrolled(code: code).id == device.id)
    try Applicant(again).ask(code: code).expectRefused(1)
    #expect(try directory.data.enrolmentCodes.all().map(\.used) == [1])
  }

  @Test("A retired device gets nothing for its old code or its old certificate")
  func retired() throws {
    let code = try directory.code(uses: 2)
    let applicant = try Applicant(service)
    let device = try applicant.enrolled(code: code)
    try directory.data.retire(device.id, nowSeconds: TestDirectory.nowSeconds)
    service.service.reload()
    let client = try service.courier(device)
    try client.send(ConnectedDevice.connectMessage())
    #expect(try client.expect(0x08)[1] == [2])
    try applicant.ask(code: code).expectRefused(1)
    // Another key, as after a reinstall, is another device.
    let other = try Applicant(service).enrolled(code: code)
    #expect(other.id != device.id)
    _ = try service.connect(other)
  }

  @Test(
    "Names that would break a certificate or a list are rejected",
    arguments: ["a\nb", "\u{202e}x", " ", "\u{7f}"])
  func badName(name: String) throws {
    let applicant = try Applicant(service)
    try applicant.ask(code: directory.code(), name: name).expectRefused(2)
  }

  @Test("An address may send 20 wrong codes at once, and 10 in each further minute")
  func wrongCodes() throws {
    // Not through the network, so that the clock is the test's.
    let queue = EnrolmentQueue(
      directory.data, .all, days: 1, AuditLog(path: nil),
      log: Log(minimumLevel: .error, sink: { _ in }))
    queue.start()
    defer { queue.stop() }
    let trust = try directory.data.trust(generation: 1, allowsES512: false)
    let request = try CertificateRequest.make(for: .generateP256())
    let code = Array("04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205A".utf8)
    func answer(_ address: String, atMilliseconds now: Int64) throws -> CourierIssuance {
      let answer = Mutex<CourierIssuance?>(nil)
      let query = EnrolmentQuery(
        kind: .enrolment(code: code, name: []), certificateRequest: request,
        site: try SocketAddress(address).site, trust: trust, nowSeconds: TestDirectory.nowSeconds)
      queue.submit(query, atMilliseconds: now) { issuance in answer.withLock { $0 = issuance } }
      try waitUntil("the answer") { answer.withLock { $0 } != nil }
      return try #require(answer.withLock { $0 })
    }
    /// Expects that exactly `count` further codes are checked.
    func expect(_ count: Int, atMilliseconds now: Int64) throws {
      for _ in 0..<count {
        #expect(try answer("[2001:db8::1]:1", atMilliseconds: now).reason == .code)
      }
      let refused = try answer("[2001:db8::2]:2", atMilliseconds: now)
      #expect(refused.reason == .tooMany)
      #expect(refused.retrySeconds == 7)
    }
    try expect(20, atMilliseconds: 0)
    #expect(try answer("[2001:db8:0:1::1]:1", atMilliseconds: 0).reason == .code)
    #expect(try answer("[2001:db8::1]:1", atMilliseconds: 5_999).reason == .tooMany)
    try expect(1, atMilliseconds: 6_000)
    try expect(10, atMilliseconds: 66_000)
  }

  @Test("Requests of one address are slowed down, without affecting existing devices")
  func slowedDown() throws {
    let applicant = try Applicant(service)
    let guess = try applicant.request(code: "04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205A")
    let bystander = try service.connect()
    var answers: [RawCourierFrame] = []
    while !answers.contains(where: { $0[0x41] == [3] }), answers.count < 1000 {
      let clients = try (0..<Limits.enrolmentFailuresPerAddress + 10).map { _ in
        try applicant.send(guess)
      }
      answers += try clients.map(Applicant.answer)
    }
    #expect(answers.contains { $0[0x41] == [1] })
    let late = try #require(answers.first { $0[0x41] == [3] })
    late.expectRefused(3)
    #expect((1...60).contains(try #require(late.retrySeconds)))
    try bystander.settle()
    _ = try service.connect()
  }
}
