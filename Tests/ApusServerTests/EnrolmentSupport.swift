import ApusDirectory
import ApusEnrolment
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import ApusWire
import Foundation
import Synchronization
import Testing

/// A device without a certificate, byte by byte.
struct Applicant {
  let service: TestService
  var key: PrivateKey

  init(_ service: TestService, key: PrivateKey? = nil) throws {
    self.service = service
    self.key = try key ?? .generateP256()
  }

  /// SHA-256 of the public key, as shown to the operator.
  var fingerprint: String { key.publicKey.spkiSHA256.hex }

  func request(
    code: String?, name: String? = "phone", certificateRequest: [UInt8]? = nil
  ) throws -> RawCourierFrame {
    var frame = RawCourierFrame(0x81)
    if let code { frame.fields.append(.init(0x40, Array(code.utf8))) }
    frame.fields.append(
      .init(0x41, try certificateRequest ?? CertificateRequest.make(for: key)))
    if let name { frame.fields.append(.init(0x42, Array(name.utf8))) }
    return frame
  }

  /// Sends the request on a new connection, and reads nothing.
  func send(_ frame: RawCourierFrame) throws -> RawCourierClient {
    let client = try service.courier(nil)
    try client.send(frame)
    return client
  }

  /// The answer, which is followed by a goodbye and the end.
  static func answer(_ client: RawCourierClient) throws -> RawCourierFrame {
    let answer = try client.expect(0x82, deadline: Deadline(seconds: 60))
    #expect(try client.expect(0x80)[0x40] != nil)
    let end = try client.end()
    #expect(end.frames.isEmpty)
    #expect(end.end == .closeNotify)
    return answer
  }

  func ask(
    code: String?, name: String? = "phone", certificateRequest: [UInt8]? = nil
  ) throws -> RawCourierFrame {
    try Self.answer(
      send(request(code: code, name: name, certificateRequest: certificateRequest)))
  }

  /// The device from an accepted answer.
  func device(_ answer: RawCourierFrame) throws -> TestDevice {
    guard answer[0x40] == [0], let der = answer[0x43] else {
      throw RawFault.unexpected("not accepted: \(answer) \(answer.reason)")
    }
    let certificate = try Certificate(der: der.span)
    #expect(certificate.spkiDER == key.publicKey.spkiDER)
    return TestDevice(
      id: try DeviceCertificate(certificate).deviceID, key: key, certificate: certificate)
  }

  func enrolled(code: String?) throws -> TestDevice { try device(ask(code: code)) }
}

extension RawCourierFrame {
  /// The text of an answer, for test messages.
  var reason: String { String(decoding: self[0x42] ?? [], as: UTF8.self) }

  var retrySeconds: Int? { self[0x44]?.reduce(0) { $0 << 8 | Int($1) } }

  /// Expects a rejection with this reason.
  func expectRefused(_ reason: UInt8, sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(self[0x40] == [2], sourceLocation: sourceLocation)
    #expect(self[0x41] == [reason], "\(self.reason)", sourceLocation: sourceLocation)
    #expect(self[0x43] == nil, sourceLocation: sourceLocation)
    #expect(self[0x42]?.isEmpty == false, sourceLocation: sourceLocation)
  }
}

extension TestDirectory {
  /// A new code.
  func code(name: String? = nil, uses: Int = 1, expiresIn seconds: Int64 = 3600) throws -> String {
    let now = Self.nowSeconds
    return try data.enrolmentCodes.make(
      .init(name: name, madeSeconds: now, expiresSeconds: now + seconds, uses: uses)
    ).text
  }

  /// Removes the key of the devices' authority, like an operator who keeps it offline.
  func removeDeviceAuthorityKey() throws {
    try FileManager.default.removeItem(atPath: data.authorityKey(.devices))
  }

  /// A device in the last third of its certificate's life.
  func agedDevice(rsaBits: Int? = nil) throws -> TestDevice {
    let now = Self.nowSeconds
    return try device(
      rsaBits: rsaBits,
      validity: Validity(notBefore: now - 100 * 86_400, notAfter: now + 10 * 86_400))
  }
}

/// Log lines of a service.
final class LogLines: Sendable {
  private let lines = Mutex<[String]>([])

  var sink: @Sendable (String) -> Void {
    { [self] line in lines.withLock { $0.append(line) } }
  }

  func all(_ beginning: String) -> [String] {
    lines.withLock { $0.filter { $0.hasPrefix(beginning) } }
  }
}

/// The openssl program.
enum OpenSSLProgram {
  @discardableResult
  static func run(_ arguments: String...) throws -> String { try run(arguments: arguments) }

  static func run(arguments: [String]) throws -> String {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = ["openssl"] + arguments
    process.standardInput = FileHandle.nullDevice
    let output = Pipe()
    process.standardOutput = output
    process.standardError = output
    try process.run()
    let data = try output.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    let text = String(decoding: data, as: UTF8.self)
    guard process.terminationStatus == 0 else {
      throw RawFault.unexpected("openssl \(arguments): \(text)")
    }
    return text
  }
}
