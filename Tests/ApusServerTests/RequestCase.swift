import ApusModel
import ApusTesting
import Testing

/// A request with one fault, and the expected answer.
struct RequestCase: Sendable, CustomTestStringConvertible {
  let name: String
  let status: Int
  let reason: String
  let body: [UInt8]
  let change: @Sendable ([RawHeader]) throws -> [RawHeader]

  var testDescription: String { name }

  init(
    _ name: String, _ status: Int, _ reason: String, body: [UInt8] = TestService.payload,
    _ change: @escaping @Sendable ([RawHeader]) throws -> [RawHeader] = { $0 }
  ) {
    self.name = name
    self.status = status
    self.reason = reason
    self.body = body
    self.change = change
  }

  /// One field with another value.
  init(
    _ name: String, _ status: Int, _ reason: String, setting field: String, _ value: String
  ) {
    self.init(name, status, reason) { $0.setting(field, value) }
  }

  /// Sends the request on a new provider connection, and checks the answer.
  func run(_ service: TestService) throws {
    try withBystanders(service) {
      let provider = try service.provider()
      let headers = try service.pushHeaders(
        to: Shared.absentToken, authorization: service.authorization())
      expectRefusal(try provider.exchange(change(headers), body: body), status, reason)
      // The connection still accepts valid requests.
      #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
      #expect(provider.received.compactMap(\.goAway).isEmpty)
    }
  }
}

/// A device token that no service issued.
let madeUpToken = String(repeating: "0123456789abcdef", count: 4)
