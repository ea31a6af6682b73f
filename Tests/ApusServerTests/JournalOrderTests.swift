import ApusModel
import ApusServer
import ApusTesting
import Foundation
import Synchronization
import Testing

/// At any moment of a kill, the line must be written before the answer.
@Suite("The ledger before the answer", .timeLimit(.minutes(5)))
struct JournalOrderTests {
  /// Checks the provider's connection at the moment a notification is recorded.
  private final class Look: LedgerWatcher, @unchecked Sendable {
    private let provider = Mutex<Unchecked?>(nil)
    private let sent = DispatchSemaphore(value: 0)
    private let looked = DispatchSemaphore(value: 0)
    private let found = Mutex(false)

    private struct Unchecked: @unchecked Sendable { var client: RawHTTP2Client }

    /// The next notification is from this provider, which nobody else uses until `wasQuiet` has returned.
    func begin(_ client: RawHTTP2Client) {
      let unchecked = Unchecked(client: client)
      provider.withLock { $0 = unchecked }
    }

    func noted(_ events: [LedgerEvent], milliseconds: Int64) {
      guard events.contains(where: { $0.state == .received }),
        let provider = provider.withLock({ $0.take() })
      else { return }
      // The connection belongs to this thread once everything was sent.
      sent.wait()
      let isQuiet = (try? provider.client.tls.isQuiet()) ?? false
      found.withLock { $0 = isQuiet }
      looked.signal()
    }

    func wasQuiet() -> Bool {
      sent.signal()
      looked.wait()
      return found.withLock { $0 }
    }
  }

  @Test("A notification is in the journal before its provider gets the answer")
  func order() throws {
    let look = Look()
    let service = try TestService(
      nil,
      .init {
        $0.isEphemeral = false
        $0.workers = 1
        $0.ledgerWatcher = look
      })
    let token = try Shared.absentToken(of: service)
    let headers =
      try service.pushHeaders(to: token, authorization: service.authorization())
      + [RawHeader(.apnsExpiration, "0")]
    let provider = try service.provider()
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    for _ in 1...10 {
      // Everything that the service sent was read.
      try provider.ping()
      look.begin(provider)
      let stream = try provider.request(headers, body: TestService.payload)
      #expect(look.wasQuiet())
      #expect(try provider.response(to: stream).status == 200)
    }
    service.stop()
  }
}
