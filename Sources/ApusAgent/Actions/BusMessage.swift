import CSystemd

/// A message of the session bus while it is written or read. Valid as long as its caller owns the handle.
@safe
struct BusMessage {
  private let handle: OpaquePointer

  init(_ handle: OpaquePointer) { unsafe self.handle = handle }

  // MARK: Writing

  /// The arguments of `Notify`.
  func append(_ note: DesktopNote, replacing: UInt32) {
    append(note.application)
    append(replacing, "u")
    for text in [note.icon, note.summary, note.body] { append(text) }
    container("a", "s") { for text in note.actions { append(text) } }
    container("a", "{sv}") {
      for (name, value) in note.hints {
        switch value {
        case .text(let text): entry(name, "s") { append(text) }
        case .byte(let byte): entry(name, "y") { append(byte, "y") }
        case .truth(let truth): entry(name, "b") { append(Int32(truth ? 1 : 0), "b") }
        }
      }
    }
    // The server chooses how long it is shown.
    append(Int32(-1), "i")
  }

  /// The arguments of the launcher's `Update`.
  func appendBadge(_ badge: Int, desktop: String) {
    append("application://\(desktop).desktop")
    container("a", "{sv}") {
      entry("count", "x") { append(Int64(badge), "x") }
      entry("count-visible", "b") { append(Int32(badge > 0 ? 1 : 0), "b") }
    }
  }

  private func append(_ text: String) {
    // A zero byte would end the text.
    let text = String(text.filter { $0 != "\0" })
    unsafe text.withCString { _ = unsafe sd_bus_message_append_basic(handle, Self.code("s"), $0) }
  }

  private func append<Value: BitwiseCopyable>(_ value: Value, _ type: Unicode.Scalar) {
    unsafe withUnsafePointer(to: value) {
      _ = unsafe sd_bus_message_append_basic(handle, Self.code(type), $0)
    }
  }

  private func container(_ type: Unicode.Scalar, _ contents: String, _ body: () -> Void) {
    unsafe sd_bus_message_open_container(handle, Self.code(type), contents)
    body()
    unsafe sd_bus_message_close_container(handle)
  }

  private func entry(_ name: String, _ type: String, _ body: () -> Void) {
    container("e", "sv") {
      append(name)
      container("v", type, body)
    }
  }

  // MARK: Reading

  func nextNumber() -> UInt32? {
    var number: UInt32 = 0
    return unsafe sd_bus_message_read_basic(handle, Self.code("u"), &number) > 0 ? number : nil
  }

  func nextText() -> String? {
    var text: UnsafePointer<CChar>?
    guard unsafe sd_bus_message_read_basic(handle, Self.code("s"), &text) > 0 else { return nil }
    return unsafe text.map { unsafe String(cString: $0) }
  }

  /// An array of texts.
  func texts() -> [String] {
    var texts: [String] = []
    unsafe sd_bus_message_enter_container(handle, Self.code("a"), "s")
    while let text = nextText() { texts.append(text) }
    return texts
  }

  private static func code(_ type: Unicode.Scalar) -> CChar {
    CChar(truncatingIfNeeded: type.value)
  }
}
