import ApusModel

/// Payloads that contain the serial number of their notification.
enum SimulationPayload {
  static func bytes(_ serial: Int, padding: Int) -> [UInt8] {
    let text = String(repeating: "x", count: padding)
    return Array("{\"aps\":{\"alert\":\"\(text)\"},\"serial\":\(serial)}".utf8)
  }

  static func serial(of payload: Span<UInt8>) -> Int? {
    var index = payload.count - 1
    guard index > 0, payload[index] == UInt8(ascii: "}") else { return nil }
    var (serial, unit) = (0, 1)
    index -= 1
    while index >= 0, payload[index] >= 0x30, payload[index] <= 0x39, unit < 1_000_000_000 {
      serial += Int(payload[index] - 0x30) * unit
      unit *= 10
      index -= 1
    }
    return unit > 1 ? serial : nil
  }
}
