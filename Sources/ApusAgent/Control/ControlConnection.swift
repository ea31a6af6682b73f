import ApusLoop
package import ApusWire
import Glibc

/// A command's connection to the running agent. Blocks the calling thread.
@safe package struct ControlConnection: ~Copyable {
  private let descriptor: Int32
  private var rest: [UInt8] = []

  /// - Throws: If no agent answers on the path.
  package init(path: String, timeoutSeconds: Int) throws(AgentFault) {
    descriptor = socket(
      AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0, let address = UnixAddress(path) else {
      throw AgentFault("\(path) is too long for a socket")
    }
    guard unsafe address.with({ unsafe connect(descriptor, $0, $1) == 0 }) else {
      throw AgentFault(
        "no agent answers on \(path): \(errorText(errno))",
        remedy: "Start it: `apus-agent run`, or `systemctl start apus-agent`.")
    }
    var time = timeval(tv_sec: timeoutSeconds, tv_usec: 0)
    unsafe setsockopt(
      descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
  }

  deinit { close(descriptor) }

  /// Sends a request and returns the answer.
  ///
  /// - Throws: The agent's refusal, or that there was no answer in time.
  package mutating func ask(_ request: JSONValue) throws(AgentFault) -> JSONValue {
    guard StateFiles.append(request.line, to: descriptor) else {
      throw AgentFault("the agent closed the connection")
    }
    let line = try next()
    guard let answer = try? JSONValue(parsing: line.span) else {
      throw AgentFault("the agent's answer is not JSON")
    }
    if answer["op"]?.string == "error" {
      throw AgentFault(answer["problem"]?.string ?? "the agent refused")
    }
    return answer
  }

  private mutating func next() throws(AgentFault) -> [UInt8] {
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      if let end = rest.firstIndex(of: 0x0a) {
        let line = Array(rest[..<end])
        rest.removeFirst(end + 1)
        return line
      }
      let count = unsafe buffer.withUnsafeMutableBytes {
        unsafe read(descriptor, $0.baseAddress, $0.count)
      }
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else {
        throw AgentFault(
          errno == EAGAIN
            ? "no answer in time: the agent is not connected to the service"
            : "the agent does not answer: \(errorText(errno))")
      }
      guard count > 0 else { throw AgentFault("the agent closed the connection") }
      rest += buffer[..<count]
    }
  }
}
