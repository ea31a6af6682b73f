import Foundation
import Testing

@Suite("The reader of the log has closed its end")
struct BrokenPipeTests {
  @Test("SIGPIPE does not end the service, which can still shut down properly")
  func signal() throws {
    let installation = try Installation()
    try installation.start()
    let service = try #require(installation.service)
    service.signal(SIGPIPE)
    // Handled by the same thread, behind the other: a service that SIGPIPE ended has another status.
    service.stop()
    #expect(service.status == 0)
  }
}
