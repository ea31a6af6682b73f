import ApusTesting
import Testing

@Suite("Notifications sent together to a device", .timeLimit(.minutes(30)))
struct OneRecordTests {
  /// A reader gets each record complete or not at all, so the contents of one are processed in one turn.
  @Test(
    "Pushes received in one record are sent in one record, with either TLS implementation",
    arguments: [true, false])
  func pushes(isCompact: Bool) throws {
    let service = try TestService(nil, .init { $0.allowsCompactTLS = isCompact })
    defer { service.stop() }
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    let provider = try QuietPusher(service)
    // Only one stream may be open before a token is known.
    #expect(try provider.push(token) == 200)
    try device.acknowledge(device.notification())
    try device.settle()
    let recordsBefore = device.client.tls.records.count

    let alerts = (0..<20).map { "number \($0)" }
    var streams: [UInt32] = []
    let frames = alerts.flatMap { alert in
      streams.append(provider.client.takeStream())
      return RawHTTP2Client.frames(
        streams.last!, provider.headers(token), Array(#"{"aps":{"alert":"\#(alert)"}}"#.utf8))
    }
    try #require(frames.flatMap(\.bytes).count < 16_384, "more than a record holds")
    try provider.client.send(frames)
    for alert in alerts {
      let notification = try device.notification()
      #expect(notification[3] == Array(#"{"aps":{"alert":"\#(alert)"}}"#.utf8))
      try device.acknowledge(notification)
    }
    for stream in streams { #expect(try provider.client.response(to: stream).status == 200) }
    #expect(device.client.tls.records.count == recordsBefore + 1)
  }
}
