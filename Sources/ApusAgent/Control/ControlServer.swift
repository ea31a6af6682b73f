import ApusLog
import ApusLoop
import ApusWire
import CAgent
import Glibc

/// Answers local programs.
protocol ControlHost: AnyObject {
  /// - Returns: The answer; nil if it follows later.
  /// - Throws: The refusal.
  func answer(_ request: ControlRequest, _ client: ControlClient) throws(AgentFault) -> JSONValue?
  func clientLeft(_ client: ControlClient)
}

/// The socket for local programs. Confined to its loop.
final class ControlServer: SocketHandler {
  /// Connections at once, and of one user.
  private static let capacity = 128
  private static let perUser = 32

  private let path: String
  private let loop: EventLoop
  private var socket: Socket?
  private(set) var clients: [ObjectIdentifier: ControlClient] = [:]
  weak var host: (any ControlHost)?

  /// - Throws: If another program answers on the path.
  init(path: String, loop: EventLoop) throws(AgentFault) {
    self.path = path
    self.loop = loop
    let descriptor = try Self.listen(path)
    do throws(SocketError) {
      let socket = try Socket(adopting: descriptor, loop: loop)
      self.socket = socket
      socket.handler = self
      socket.setInterest(reading: true, writing: false)
    } catch {
      throw AgentFault("cannot listen on \(path): \(error)")
    }
  }

  private static func listen(_ path: String) throws(AgentFault) -> Int32 {
    let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
    try StateFiles.makeDirectory(folder, mode: 0o755)
    // The lock of the state folder keeps two agents apart, so that what is there is a leftover.
    unsafe unlink(path)
    let descriptor = Glibc.socket(
      AF_UNIX,
      Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        | Int32(SOCK_NONBLOCK.rawValue), 0)
    guard descriptor >= 0, let address = UnixAddress(path) else {
      throw AgentFault("cannot listen on \(path): the path is too long")
    }
    let isBound = unsafe address.with { unsafe bind(descriptor, $0, $1) == 0 }
    // Every user may connect: who it is decides about each request.
    guard isBound, unsafe chmod(path, 0o666) == 0, Glibc.listen(descriptor, 64) == 0 else {
      let fault = StateFiles.failure("listen on", path)
      Glibc.close(descriptor)
      throw fault
    }
    return descriptor
  }

  func close() {
    socket?.close()
    unsafe unlink(path)
    for client in clients.values { client.close() }
  }

  func socketWritable() {}

  func socketReadable() {
    guard let socket else { return }
    let descriptor = apus_accept(socket.descriptor)
    guard descriptor >= 0 else { return }
    var (user, process) = (uid_t(), pid_t())
    guard unsafe apus_peer(descriptor, &user, &process) == 0, clients.count < Self.capacity,
      clients.values.count(where: { $0.user == user }) < Self.perUser,
      let connection = try? Socket(adopting: fcntl(descriptor, F_DUPFD_CLOEXEC, 0), loop: loop)
    else {
      Glibc.close(descriptor)
      return
    }
    Glibc.close(descriptor)
    let client = ControlClient(socket: connection, user: user, process: process, server: self)
    clients[ObjectIdentifier(client)] = client
  }

  func left(_ client: ControlClient) {
    guard clients.removeValue(forKey: ObjectIdentifier(client)) != nil else { return }
    host?.clientLeft(client)
  }
}

/// A local program, as the kernel identified it when it connected.
final class ControlClient: SocketHandler, Subscriber {
  /// Bytes of answers and notifications that a program may leave unread.
  private static let unreadBytes = 1 << 20

  let user: UInt32
  let process: Int32
  private let socket: Socket
  private weak var server: ControlServer?
  private var lines = LineBuffer()
  private var output = OutputQueue()

  init(socket: Socket, user: UInt32, process: Int32, server: ControlServer) {
    self.socket = socket
    self.user = user
    self.process = process
    self.server = server
    socket.handler = self
    socket.setInterest(reading: true, writing: false)
  }

  var isOpen: Bool { socket.isOpen }

  func deliver(_ arrival: Arrival) {
    guard case .object(var object) = arrival.json else { return }
    object.members.insert(.init(key: "op", value: .string("notification")), at: 0)
    send(.object(object))
  }

  func send(_ value: JSONValue) {
    guard socket.isOpen else { return }
    let line = value.line
    guard output.count + line.count <= Self.unreadBytes else { return close() }
    switch unsafe line.withUnsafeBytes({ unsafe output.write($0, to: socket) }) {
    case .written: break
    case .queued, .blocked: socket.setInterest(reading: true, writing: true)
    case .failed: close()
    }
  }

  func refuse(_ fault: AgentFault) {
    send(.members(["op": .string("error"), "problem": .string(fault.problem)]))
  }

  func close() {
    socket.close()
    server?.left(self)
  }

  func socketWritable() {
    switch output.writeWaiting(to: socket) {
    case .written: socket.setInterest(reading: true, writing: false)
    case .queued, .blocked: break
    case .failed: close()
    }
  }

  func socketReadable() {
    var buffer = [UInt8](repeating: 0, count: 8192)
    let result = unsafe buffer.withUnsafeMutableBytes { unsafe socket.read(into: $0) }
    switch result {
    case .bytes(let count): received(buffer[..<count])
    case .wouldBlock: break
    case .endOfStream, .failed: close()
    }
  }

  private func received(_ bytes: ArraySlice<UInt8>) {
    do throws(AgentFault) {
      for line in try lines.take(bytes) {
        guard socket.isOpen else { return }
        answer(line)
      }
    } catch {
      refuse(error)
      close()
    }
  }

  private func answer(_ line: [UInt8]) {
    do throws(AgentFault) {
      if let answer = try server?.host?.answer(try ControlRequest(line: line.span), self) {
        send(answer)
      }
    } catch {
      refuse(error)
    }
  }
}

/// The address of a socket in the file system.
struct UnixAddress {
  private var address = sockaddr_un()

  /// Nil if the path is too long.
  init?(_ path: String) {
    let capacity = MemoryLayout.size(ofValue: address.sun_path)
    guard path.utf8.count < capacity else { return nil }
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
  }

  func with<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    unsafe withUnsafePointer(to: address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
  }
}
