import ApusLoop
import Synchronization

@testable import ApusClient

/// An HTTP proxy that accepts CONNECT, or sends a given answer instead.
final class ScriptedProxy: @unchecked Sendable {
  private(set) var port: UInt16 = 0
  /// The headers of the requests.
  var heads: [String] { seen.withLock { $0 } }
  private let seen = Mutex<[String]>([])
  private let loop = EventLoop(name: "proxy")
  private var listener: Listener?
  private var tunnels: [Tunnel] = []

  init(to target: UInt16, answer: String = "HTTP/1.1 200 OK\r\n\r\n") throws {
    let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) {
      [weak self, loop] descriptor, _ in
      guard let self, let tunnel = try? Tunnel(descriptor, loop, target: target, answer: answer)
      else {
        return
      }
      tunnel.onHead = { [weak self] head in self?.seen.withLock { $0.append(head) } }
      tunnels.append(tunnel)
    }
    self.listener = listener
    port = listener.localAddress?.port ?? 0
    loop.start()
  }

  deinit { loop.stop() }

  private final class Tunnel: SocketHandler {
    var onHead: ((String) -> Void)?
    private let client: Socket
    private var service: Far?
    private let loop: EventLoop
    private let target: UInt16
    private let answer: [UInt8]
    private var head: [UInt8] = []
    private var buffer = [UInt8](repeating: 0, count: 65_536)

    init(_ descriptor: Int32, _ loop: EventLoop, target: UInt16, answer: String) throws {
      self.loop = loop
      self.target = target
      self.answer = Array(answer.utf8)
      client = try Socket(adopting: descriptor, loop: loop)
      client.handler = self
      client.setInterest(reading: true, writing: false)
    }

    func socketWritable() {}

    func socketReadable() {
      var bytes = buffer.mutableSpan
      guard case .bytes(let count) = client.read(into: &bytes) else {
        service?.socket.close()
        return client.close()
      }
      let part = Array(buffer[..<count])
      if let service { return service.write(part) }
      head += part
      guard head.suffix(4) == [13, 10, 13, 10] else { return }
      onHead?(String(decoding: head, as: UTF8.self))
      write(answer)
      if answer.starts(with: "HTTP/1.1 2".utf8) {
        service = try? Far(
          Socket.connect(to: .loopbackIPv4(port: target), loop: loop), near: self)
      }
    }

    func write(_ bytes: [UInt8]) { _ = client.write(bytes.span) }
    func close() { client.close() }
  }

  /// The service's side.
  private final class Far: SocketHandler {
    let socket: Socket
    private unowned let near: Tunnel
    private var early: [UInt8] = []
    private var isConnected = false
    private var buffer = [UInt8](repeating: 0, count: 65_536)

    init(_ socket: Socket, near: Tunnel) {
      self.socket = socket
      self.near = near
      socket.handler = self
      socket.setInterest(reading: false, writing: true)
    }

    func write(_ bytes: [UInt8]) {
      guard isConnected else { return early += bytes }
      _ = socket.write(bytes.span)
    }

    func socketWritable() {
      guard socket.connectError() == 0 else { return near.close() }
      isConnected = true
      socket.setInterest(reading: true, writing: false)
      write(early)
    }

    func socketReadable() {
      var bytes = buffer.mutableSpan
      guard case .bytes(let count) = socket.read(into: &bytes) else {
        near.close()
        return socket.close()
      }
      near.write(Array(buffer[..<count]))
    }
  }
}
