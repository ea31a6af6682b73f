import ApusCommand
import ApusLoop
import Glibc

/// The link between a part of a fleet and its parent process. It carries reports, and shows at once when either ends.
final class ReportLink: SocketHandler {
  /// The environment variable with the descriptor of the part's end.
  static let variable = "APUS_BENCH_REPORT"

  /// Called when the other process has ended.
  var onEnd: () -> Void = {}
  /// Called for each received report.
  var onReport: (FleetReport) -> Void = { _ in }

  private let socket: Socket
  /// The same end. It outlives the loop, because the last report is sent after the loop has ended.
  private let descriptor: Int32
  private var input: [UInt8] = []
  private var chunk = [UInt8](repeating: 0, count: 65_536)

  init(adopting descriptor: Int32, loop: EventLoop) throws(SocketError) {
    self.descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
    socket = try Socket(adopting: descriptor, loop: loop)
    socket.handler = self
    socket.setInterest(reading: true, writing: false)
  }

  deinit { close(descriptor) }

  /// The link of a process that was started as a part; nil in any other process.
  static func toParent(_ loop: EventLoop) throws(CommandFailure) -> ReportLink? {
    guard let text = unsafe getenv(variable), let descriptor = unsafe Int32(String(cString: text))
    else { return nil }
    do throws(SocketError) { return try ReportLink(adopting: descriptor, loop: loop) } catch {
      throw CommandFailure(.failed, "\(error)")
    }
  }

  /// Blocks until the parent has room, which is soon, because it reads everything at once.
  func send(_ report: FleetReport) {
    let bytes = report.bytes
    var sent = 0
    while sent < bytes.count {
      let count = unsafe bytes[sent...].withUnsafeBytes {
        unsafe Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      if count > 0 {
        sent += count
      } else if errno == EAGAIN {
        var wanted = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        unsafe poll(&wanted, 1, -1)
      } else if errno != EINTR {
        // The reader will notice the end.
        return
      }
    }
  }

  func socketReadable() {
    let result = unsafe chunk.withUnsafeMutableBytes { unsafe socket.read(into: $0) }
    switch result {
    case .bytes(let count):
      input.append(contentsOf: chunk[..<count])
      takeReports()
    case .wouldBlock: break
    case .endOfStream, .failed:
      socket.close()
      onEnd()
    }
  }

  func socketWritable() {}

  private func takeReports() {
    while input.count >= FleetReport.byteCount {
      let bytes = Array(input[..<FleetReport.byteCount])
      input.removeFirst(FleetReport.byteCount)
      guard let report = FleetReport(bytes: bytes.span) else {
        socket.close()
        return onEnd()
      }
      onReport(report)
    }
  }
}
