import ApusCore
import ApusLog
import ApusModel
import ApusStore
import Testing

@testable import ApusServer

@Suite("The channels of an app are found by id, and listed by their age")
struct ChannelRegisterTests {
  private static func channel(
    _ number: UInt64, _ environment: Environment, app: AppID = AppID(7), atMilliseconds: Int64
  ) -> Channel {
    Channel(
      id: ChannelID(high: 1, low: number), app: app, environment: environment, storage: .none,
      createdMilliseconds: atMilliseconds)
  }

  private let store = MemoryStore(mode: .manual)

  private func makeRegister(_ channels: [Channel]) throws -> ChannelRegister {
    let register = try ChannelRegister(reading: store)
    for channel in channels { try register.create(channel) { _ in } }
    store.runCommits()
    return register
  }

  @Test("Lists of both environments become one, the oldest first")
  func lists() throws {
    let (production, development) = (Environment.production, Environment.development)
    let channels = [
      Self.channel(1, production, atMilliseconds: 10),
      Self.channel(2, development, atMilliseconds: 20),
      Self.channel(3, production, app: AppID(8), atMilliseconds: 25),
      Self.channel(4, production, atMilliseconds: 30),
      Self.channel(5, development, atMilliseconds: 40),
    ]
    let register = try makeRegister(channels)
    #expect(register.channels(of: AppID(7)).map(\.id.low) == [1, 2, 4, 5])
    #expect(register.channels(of: AppID(7), in: production).map(\.id.low) == [1, 4])
    #expect(register.channels(of: AppID(8)).map(\.id.low) == [3])
    #expect(register.channels(of: AppID(9)).isEmpty)
  }

  @Test("One is found by its id alone until it is deleted")
  func one() throws {
    let channel = Self.channel(5, .development, atMilliseconds: 1)
    let register = try makeRegister([channel])
    #expect(register.channel(channel.id) == channel)
    #expect(register.channel(ChannelID(high: 5, low: 1)) == nil)
    register.delete(channel) { _ in }
    store.runCommits()
    #expect(register.channel(channel.id) == nil)
  }
}

extension ChannelRegister {
  /// A register whose broadcasts can be numbered.
  convenience init(reading store: MemoryStore) throws {
    let order = try AcceptanceOrder(store: store) { _ in }
    store.runCommits()
    try self.init(store, order: order, log: Log(), nowSeconds: 0)
  }
}
