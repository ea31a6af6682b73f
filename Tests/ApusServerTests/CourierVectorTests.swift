import ApusModel
import ApusTesting
import ApusTrust
import ApusWire
import CourierVectors
import Testing

@Suite("The service takes the courier vectors", .timeLimit(.minutes(30)))
struct CourierVectorTests {
  /// A service of its own: refused requests for certificates slow down others of the same address.
  private static let started = Result { try TestService() }

  let service: TestService

  init() throws { service = try Self.started.get() }

  /// A connection at the stage that the vector asks for, and the token of its device.
  private func connection(
    for vector: CourierVector
  ) throws -> (client: RawCourierClient, token: [UInt8]) {
    if vector.stage == "enrolling" || vector.dialect == TestService.inBandProtocol {
      let client = try service.courier(nil, protocols: [vector.dialect])
      return (client, [])
    }
    let device = try service.directory.device()
    let client = try service.courier(device, protocols: [vector.dialect])
    let token = service.directory.baseToken(device.id).bytes
    if vector.stage == "first" { return (client, token) }
    let connected = try ConnectedDevice(client, device)
    if vector.stage.isEmpty { try connected.enable() }
    return (client, token)
  }

  /// The bytes with the device's own token in place of the vectors' one.
  private func replacingToken(in bytes: [UInt8], by token: [UInt8]) -> [UInt8] {
    let placeholder = [UInt8](0x10...0x2f)
    guard !token.isEmpty, let range = bytes.firstRange(of: placeholder) else { return bytes }
    return Array(bytes[..<range.lowerBound]) + token + Array(bytes[range.upperBound...])
  }

  @Test(
    "Each is answered, skipped or ends the connection",
    arguments: CourierVector.all.filter(\.isToService))
  func vector(vector: CourierVector) throws {
    let (client, token) = try connection(for: vector)
    try client.tls.send(replacingToken(in: vector.bytes, by: token))
    if let command = vector.reply.first {
      let answer = try client.expect(command, deadline: Deadline(seconds: 60))
      let expected = replacingToken(in: vector.reply, by: token)
      #expect(Array(answer.bytes.prefix(expected.count)) == expected)
    }
    guard vector.closes else {
      // Whatever else the service had to say would come before this answer.
      try client.send(RawCourierFrame(0x0f, (1, [0, 0])))
      _ = try client.expect(0x10)
      client.tls.close()
      return
    }
    let end = try client.end()
    #expect(end.frames.allSatisfy { $0.command == 0x80 && $0[0x40]?.isEmpty == false })
    #expect(end.frames.count <= (vector.allowsExtensions ? 1 : 0))
    if vector.fault != nil { #expect(end.frames.count == 1) }
    #expect(end.end == .closeNotify)
  }

  @Test("The signature of the connect message is over the 17 bytes of its nonce")
  func signature() throws {
    let vector = try CourierVector.named("connect-in-band")
    let facts = try #require(vector.decoded)
    let nonce = hex(facts["nonce"] ?? "")
    let signature = hex(facts["signature"] ?? "")
    let certificate = hex(facts["certificate"] ?? "")
    let read = try NonceProof.verify(
      nonce: nonce.span, signature: signature.span, certificateDER: certificate.span)
    #expect(read == CourierNonce(milliseconds: 1_700_000_000_000, random: 0x0102_0304_0506_0708))
  }
}
