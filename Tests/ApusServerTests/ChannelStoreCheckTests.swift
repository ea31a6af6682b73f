import ApusDirectory
import ApusTesting
import Testing

@Suite("The examination of a store with channels")
struct ChannelStoreCheckTests {
  @Test("Broadcasts, subscriptions and figures are intact rows")
  func intact() throws {
    let directory = try TestDirectory()
    let service = try BroadcastService(directory, .init { $0.isEphemeral = false })
    let channel = try service.createChannel()
    let device = try service.connect()
    try device.subscribe(channel)
    try service.provider().store(channel, 1)
    _ = try device.broadcast()
    service.service.stop()
    let store = try #require(StoreCheck.findings(directory.data).first)
    #expect(store.state == .good && store.text.hasPrefix("intact"), "\(store)")
  }
}
