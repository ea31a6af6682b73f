package import ApusLoop
import ApusTLS

/// What all device connections on one loop share: the loop, and memory that each uses only during its turn. Confined to
/// the loop's thread.
@safe package final class DeviceLoop {
  package let loop: EventLoop
  let tlsBuffers: TLSBuffers
  let receiveBuffer: UnsafeMutableRawBufferPointer
  /// Lent to the current connection for its output frames.
  var scratch: [UInt8] = []
  /// Whether a connection is in its turn. Output of other connections then waits in `deferred`, because the TLS buffers
  /// hold the bytes of the current one.
  private var isInTurn = false
  private var deferred: [DeviceConnection] = []

  private static let receiveBytes = 65_536

  package init(loop: EventLoop) {
    self.loop = loop
    tlsBuffers = TLSBuffers()
    unsafe receiveBuffer = .allocate(byteCount: Self.receiveBytes, alignment: 64)
  }

  deinit { unsafe receiveBuffer.deallocate() }

  /// Gives a connection a turn, now or after the current one.
  func turn(_ connection: DeviceConnection, _ body: () -> Void) {
    guard !isInTurn else {
      body()
      // Its own turn ends with a flush anyway.
      if !connection.isInTurn, !connection.isDeferred {
        connection.isDeferred = true
        deferred.append(connection)
      }
      return
    }
    isInTurn = true
    defer { isInTurn = false }
    connection.takeTurn(body)
    while let next = deferred.popLast() {
      next.isDeferred = false
      next.takeTurn {}
    }
  }
}
