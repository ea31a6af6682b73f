/// A courier frame as on the wire: command, length of the fields in four bytes, then each field with its id and its
/// length in two bytes.
package struct RawCourierFrame: Sendable, Hashable, CustomStringConvertible {
  package struct Field: Sendable, Hashable, CustomStringConvertible {
    package var id: UInt8
    package var value: [UInt8]

    package init(_ id: UInt8, _ value: [UInt8]) {
      self.id = id
      self.value = value
    }

    package var bytes: [UInt8] { [id] + bigEndian(UInt16(value.count)) + value }
    package var description: String { "\(id): \(value.count) bytes" }
  }

  package var command: UInt8
  package var fields: [Field]

  package init(_ command: UInt8, _ fields: [Field] = []) {
    self.command = command
    self.fields = fields
  }

  package init(_ command: UInt8, _ fields: (UInt8, [UInt8])...) {
    self.init(command, fields.map { Field($0.0, $0.1) })
  }

  package static let headerBytes = 5

  package var bytes: [UInt8] {
    let body = fields.flatMap(\.bytes)
    return [command] + bigEndian(UInt32(body.count)) + body
  }

  /// The first value of a field.
  package subscript(id: UInt8) -> [UInt8]? { fields.first { $0.id == id }?.value }

  /// The ids of the fields, in order.
  package var fieldIDs: [UInt8] { fields.map(\.id) }

  package var description: String { "command \(command) with \(fields)" }
}

/// The device's side of the courier protocol, frame by frame.
///
/// It sends only what a test sends: no filter or acknowledgement of its own.
package final class RawCourierClient {
  package let tls: RawTLSClient
  /// Everything that was received, in order.
  package private(set) var received: [RawCourierFrame] = []

  package init(_ tls: RawTLSClient) { self.tls = tls }

  package func send(_ frames: RawCourierFrame...) throws { try tls.send(frames.flatMap(\.bytes)) }

  /// The next frame; nil if the connection ended between two frames.
  package func nextFrame(
    deadline: Deadline = Deadline(), awaiting what: @autoclosure () -> String = "a frame"
  ) throws -> RawCourierFrame? {
    guard
      let head = try tls.take(RawCourierFrame.headerBytes, deadline: deadline, awaiting: what())
    else { return nil }
    let length = head[1...].reduce(0) { $0 << 8 | Int($1) }
    var rest =
      (length == 0
      ? [] : try tls.take(length, deadline: deadline, awaiting: "the rest of a frame") ?? [])[...]
    var frame = RawCourierFrame(head[0])
    while !rest.isEmpty {
      guard rest.count >= 3 else { throw RawFault.unexpected("a field without a length") }
      let start = rest.startIndex
      let count = Int(rest[start + 1]) << 8 | Int(rest[start + 2])
      guard rest.count >= 3 + count else { throw RawFault.unexpected("a field beyond its frame") }
      frame.fields.append(.init(rest[start], Array(rest.dropFirst(3).prefix(count))))
      rest = rest.dropFirst(3 + count)
    }
    received.append(frame)
    return frame
  }

  /// The next frame, which must have this command. Frames of the command `skipping` may come before it.
  package func expect(
    _ command: UInt8, skipping skipped: UInt8? = nil, deadline: Deadline = Deadline()
  ) throws -> RawCourierFrame {
    let what = "a frame of command \(command)"
    while let frame = try nextFrame(deadline: deadline, awaiting: what) {
      if frame.command == command { return frame }
      guard frame.command == skipped else {
        throw RawFault.unexpected("received \(frame) instead of \(what)")
      }
    }
    throw RawFault.ended(tls.end ?? .endOfStream, awaiting: what)
  }

  /// Reads until the connection ends; returns the frames read and the kind of end. Closes this side too.
  package func end(
    deadline: Deadline = Deadline()
  ) throws -> (frames: [RawCourierFrame], end: RawEnd) {
    var frames: [RawCourierFrame] = []
    while let frame = try nextFrame(deadline: deadline, awaiting: "the end of the connection") {
      frames.append(frame)
    }
    tls.close()
    return (frames, tls.end ?? .endOfStream)
  }
}
