import Foundation
import Testing

@Suite("The reader of the log is gone")
struct BrokenPipeTests {
  @Test("SIGPIPE does not end the service, which still stops in order when it is told to")
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
