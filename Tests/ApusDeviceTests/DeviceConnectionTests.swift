import ApusDevice
import ApusModel
import ApusServer
import ApusTrust
import ApusWire
import Testing

@Suite("A device stays connected to a service", .timeLimit(.minutes(2)))
struct DeviceConnectionTests {
  private typealias Happening = Recorder.Happening

  @Test(
    "It connects, gets its token and a notification, and stops",
    arguments: [CourierALPN.apus, .securityV2, .securityV3])
  func wholeWay(dialect: CourierALPN) async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let device = try LiveDevice(
      live, identity: live.issueDevice(rsaBits: dialect == .securityV3 ? 2048 : nil),
      dialect: dialect)
    var happenings = device.recorder.happenings.makeAsyncIterator()
    device.perform { $0.start() }
    let first = await happenings.next()
    guard case .connected(_, isNew: true)? = first else {
      Issue.record("not connected: \(String(describing: first))")
      return
    }
    guard case .nothingStored? = await happenings.next() else {
      Issue.record("something was stored")
      return
    }
    device.perform { _ = $0.requestToken(TopicHash(of: Array(LiveService.topic.utf8).span)) }
    guard case .appToken(let token?)? = await happenings.next() else {
      Issue.record("no token")
      return
    }
    #expect(try live.push(#"{"aps":{"alert":"Hi"}}"#, to: token) == "200")
    guard case .received(let notification, let payload, let collapseID)? = await happenings.next()
    else {
      Issue.record("no notification")
      return
    }
    #expect(payload == #"{"aps":{"alert":"Hi"}}"#)
    #expect(notification.token == token)
    #expect(notification.priority == .immediate)
    #expect(notification.expirySeconds == 4_000_000_000)
    if dialect == .apus {
      #expect(notification.id?.text == "11111111-2222-4333-8444-555555555555")
      #expect(notification.pushType == .alert)
      #expect(collapseID == "score")
    }
    device.perform { $0.stop() }
    guard case .disconnected(.stopped, nil)? = await happenings.next() else {
      Issue.record("did not stop")
      return
    }
    #expect(live.service.counts()[.delivered] == 1)
  }
}
