import ApusModel
import ApusTesting
import Testing

@Suite("Requests that are refused for a device are in the audit log, with the device")
struct DeviceRefusalAuditTests {
  private let event = "request.refused"

  @Test("A dead token, a payload that is too large, a topic of another app")
  func http2() throws {
    let service = try TestService()
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    let provider = try service.provider()
    let large = Array(#"{"aps":{"alert":"\#(String(repeating: "x", count: 5000))"}}"#.utf8)
    let audit = AuditLines(service)
    let tooLarge = try audit.line(event) {
      let response = try provider.exchange(headers, body: large)
      #expect(response.status == 413)
    }
    try device.filter([])
    try device.settle()
    let dead = try audit.line(event) {
      let response = try provider.exchange(headers, body: TestService.payload)
      #expect(response.status == 410)
    }
    #expect([tooLarge, dead].map { $0["reason"] } == ["PayloadTooLarge", "Unregistered"])
    for line in [tooLarge, dead] {
      #expect(line["device"] == device.device.id.text)
      #expect(line["explanation"]?.isEmpty == false)
      #expect(line["token"] == "\(token.prefix(8))…")
      #expect(line["topic"] == TestDirectory.topic && line["id"] != nil)
    }
  }

  @Test("More than the rate of a device")
  func flood() throws {
    let service = try TestService(
      nil,
      .init {
        $0.requestsPerTokenPerSecond = 1
        $0.requestsPerToken = 1
      })
    let device = try service.connect()
    let headers = try service.pushHeaders(
      to: device.token(), authorization: service.authorization())
    try device.enable(TestDirectory.topic)
    let provider = try service.provider()
    _ = try provider.request(headers, body: TestService.payload)
    let line = try AuditLines(service).line(event) {
      let response = try provider.exchange(headers, body: TestService.payload)
      #expect(response.status == 429)
    }
    #expect(line["reason"] == "TooManyRequests")
    #expect(line["device"] == device.device.id.text)
  }

  @Test("A request for no known device concerns only its provider")
  func unknown() throws {
    let service = try TestService()
    let headers = try service.pushHeaders(
      to: String(repeating: "0", count: 63), authorization: service.authorization())
    let provider = try service.provider()
    #expect(try provider.exchange(headers, body: TestService.payload).status == 400)
    #expect(AuditLines(service).all().allSatisfy { $0["event"] as? String != event })
  }
}
