import ApusModel
import ApusTesting

private typealias Frame = GatewayFrame

extension GatewayTableTests {
  static let rows: [GatewayRow] = good + framing + items + tokens + payloads + rules

  private static let good: [GatewayRow] = [
    GatewayRow("command 0", .accepted, cut: true) { Frame.simple($0.good) },
    GatewayRow("command 1", .accepted, cut: true) { Frame.enhanced(1, $0.good) },
    GatewayRow("command 2", .accepted, cut: true) { Frame.framed(1, $0.good) },
    GatewayRow("command 2 without items 4 and 5", .accepted, cut: true) {
      Frame.framed(1, $0.good, expiration: nil, priority: nil)
    },
    GatewayRow("command 2 without identifier", .accepted) { Frame.framed(nil, $0.good) },
    GatewayRow("items in another order", .accepted, cut: true) {
      Frame.items([
        (5, [5]), (3, [0, 0, 4, 0xd2]), (2, Frame.payload), (4, [0, 0, 0, 0]), (1, $0.good),
      ])
    },
    GatewayRow("content-available at priority 10", .accepted) {
      Frame.framed(1, $0.good, Array(#"{"aps":{"content-available":1}}"#.utf8))
    },
  ]

  private static let framing: [GatewayRow] = [
    GatewayRow("command 3", .refused("0880 00000000"), cut: true) { _ in
      [3] + Frame.knownBad(1)
    },
    GatewayRow("command 255", .refused("0880 00000000")) { _ in [255] },
    GatewayRow("HTTP", .refused("0880 00000000")) { _ in Array("GET / HTTP/1.1\r\n\r\n".utf8) },
    GatewayRow("a frame of 131,073 bytes", .refused("0880 00000000")) { _ in
      hex("02 00020001")
    },
    GatewayRow("a frame of 4 GB", .refused("0880 00000000")) { _ in hex("02 ffffffff") },
    GatewayRow("command 0 without payload", .silent, cut: true) { Frame.simple($0.good, []) },
    GatewayRow("command 0 with a forged token", .silent) { Frame.simple($0.forged) },
    GatewayRow("command 0 with a payload of 2049 bytes", .silent) {
      Frame.simple($0.good, Frame.payload(byteCount: 2049))
    },
    GatewayRow("command 0 that is not JSON", .silent) { Frame.simple($0.good, [0x61]) },
    GatewayRow("command 0 without token", .silent) { _ in Frame.simple([]) },
  ]

  private static let items: [GatewayRow] = [
    GatewayRow("command 2 of length 0", .refused("0802 00000000"), cut: true) { _ in
      Frame.raw([])
    },
    GatewayRow("command 2 without token", .refused("0802 00000001")) { _ in
      Frame.items([(2, Frame.payload), (3, [0, 0, 0, 1])])
    },
    GatewayRow(
      "an item past the frame, behind the identifier", .refused("0880 00000005"), cut: true
    ) { _ in
      Frame.raw(hex("03 0004 00000005 01 0020 00"))
    },
    GatewayRow("an item past the frame, before the identifier", .refused("0880 00000000")) { _ in
      Frame.raw(hex("01 0020 00 03 0004 00000005"))
    },
    GatewayRow("one byte behind the last item", .refused("0880 00000001")) {
      Frame.raw(Array(Frame.framed(1, $0.good).dropFirst(5)) + [0])
    },
    GatewayRow("two bytes behind the last item", .refused("0880 00000001")) {
      Frame.raw(Array(Frame.framed(1, $0.good).dropFirst(5)) + [0, 0])
    },
    GatewayRow("an identifier of three bytes", .refused("0880 00000000")) {
      Frame.items([(1, $0.good), (2, Frame.payload), (3, [0, 0, 1])])
    },
    GatewayRow("an expiration of five bytes", .refused("0880 00000001")) {
      Frame.items([(1, $0.good), (2, Frame.payload), (3, [0, 0, 0, 1]), (4, [0, 0, 0, 0, 0])])
    },
    GatewayRow("a priority of two bytes", .refused("0880 00000001")) {
      Frame.items([(1, $0.good), (2, Frame.payload), (3, [0, 0, 0, 1]), (5, [0, 10])])
    },
    GatewayRow("a priority of no bytes", .refused("0880 00000001")) {
      Frame.items([(1, $0.good), (2, Frame.payload), (3, [0, 0, 0, 1]), (5, [])])
    },
    GatewayRow("item 6", .refused("0880 00000001"), cut: true) {
      Frame.items([(1, $0.good), (6, [1]), (2, Frame.payload), (3, [0, 0, 0, 1])])
    },
    GatewayRow("item 0", .refused("0880 00000001")) {
      Frame.items([(0, []), (1, $0.good), (2, Frame.payload), (3, [0, 0, 0, 1])])
    },
    GatewayRow("the token twice", .refused("0880 00000001")) {
      Frame.items([(1, $0.good), (1, $0.good), (2, Frame.payload), (3, [0, 0, 0, 1])])
    },
    GatewayRow("the identifier twice", .refused("0880 00000001")) {
      Frame.items([
        (1, $0.good), (2, Frame.payload), (3, [0, 0, 0, 1]), (3, [0, 0, 0, 2]),
      ])
    },
  ]

  private static let tokens: [GatewayRow] = [
    GatewayRow("known-bad", .refused("0802 00000007"), cut: true) { _ in Frame.knownBad(7) },
    GatewayRow("command 1 without token", .refused("0802 00000001"), cut: true) { _ in
      Frame.enhanced(1, [])
    },
    GatewayRow("a token of 31 bytes", .refused("0805 00000001")) {
      Frame.framed(1, Array($0.good.dropLast()))
    },
    GatewayRow("a token of 33 bytes", .refused("0805 00000001")) {
      Frame.framed(1, $0.good + [0])
    },
    GatewayRow("a token of 101 bytes", .refused("0805 00000001")) { _ in
      Frame.framed(1, [UInt8](repeating: 1, count: 101))
    },
    GatewayRow("command 1 with a token of one byte", .refused("0805 00000000")) { _ in
      // How one client tests whether a connection works.
      Frame.enhanced(0, [0], [0])
    },
    GatewayRow("a forged token", .refused("0808 000004d2"), cut: true) {
      Frame.framed(1234, $0.forged)
    },
    GatewayRow("bytes 00 to 1f for a token", .refused("0808 000004d2")) { _ in
      Frame.framed(1234, Array(0..<32))
    },
    GatewayRow("command 1 with a forged token", .refused("0808 ffffffff")) {
      Frame.enhanced(0xffff_ffff, $0.forged)
    },
    GatewayRow("a token of another app", .refused("0808 00000001")) {
      Frame.framed(1, $0.ofOtherApp)
    },
    GatewayRow("a token of the other environment", .refused("0808 00000001")) {
      Frame.framed(1, $0.ofDevelopment)
    },
    GatewayRow("a token that names the device", .refused("0808 00000001")) {
      Frame.framed(1, $0.base)
    },
    GatewayRow("a bad token before a bad payload", .refused("0808 00000001")) {
      Frame.framed(1, $0.forged, [0x61])
    },
  ]

  private static let payloads: [GatewayRow] = [
    GatewayRow("no payload", .refused("0804 00000001")) {
      Frame.items([(1, $0.good), (3, [0, 0, 0, 1])])
    },
    GatewayRow("a payload of length 0", .refused("0804 00000001")) { Frame.framed(1, $0.good, []) },
    GatewayRow("command 1 with a payload of length 0", .refused("0804 00000001"), cut: true) {
      Frame.enhanced(1, $0.good, [])
    },
    GatewayRow("a payload of 2048 bytes", .accepted) {
      Frame.framed(1, $0.good, Frame.payload(byteCount: 2048))
    },
    GatewayRow("a payload of 2049 bytes", .refused("0807 00000001")) {
      Frame.framed(1, $0.good, Frame.payload(byteCount: 2049))
    },
    GatewayRow("command 1 with 2048 bytes", .accepted) {
      Frame.enhanced(1, $0.good, Frame.payload(byteCount: 2048))
    },
    GatewayRow("command 1 that says 2049 bytes, and no more", .refused("0807 00000001")) {
      Array(Frame.enhanced(1, $0.good, Frame.payload(byteCount: 2049)).prefix(45))
    },
    GatewayRow("not JSON", .refused("0801 00000001")) {
      Frame.framed(1, $0.good, Array("alert".utf8))
    },
    GatewayRow("an array", .refused("0801 00000001")) {
      Frame.framed(1, $0.good, Array(#"[{"aps":{}}]"#.utf8))
    },
    GatewayRow("an object without aps", .refused("0801 00000001")) {
      Frame.framed(1, $0.good, Array(#"{"a":1}"#.utf8))
    },
    GatewayRow("priority 7", .refused("0801 00000001")) {
      Frame.framed(1, $0.good, priority: 7)
    },
    GatewayRow("priority 0", .refused("0801 00000001")) {
      Frame.framed(1, $0.good, priority: 0)
    },
  ]

  private static let rules: [GatewayRow] = [
    GatewayRow("strict: command 0 with 256 bytes", .accepted, on: .strict) {
      Frame.simple($0.good, Frame.payload(byteCount: 256))
    },
    GatewayRow("strict: command 0 with 257 bytes", .silent, on: .strict) {
      Frame.simple($0.good, Frame.payload(byteCount: 257))
    },
    GatewayRow("strict: command 1 with 257 bytes", .refused("0807 00000001"), on: .strict) {
      Frame.enhanced(1, $0.good, Frame.payload(byteCount: 257))
    },
    GatewayRow("strict: command 2 with 2048 bytes", .accepted, on: .strict) {
      Frame.framed(1, $0.good, Frame.payload(byteCount: 2048))
    },
    GatewayRow(
      "strict: content-available at priority 10", .refused("0801 00000001"), on: .strict
    ) {
      Frame.framed(1, $0.good, Array(#"{"aps":{"content-available":1}}"#.utf8))
    },
    GatewayRow("strict: content-available without priority", .accepted, on: .strict) {
      Frame.framed(1, $0.good, Array(#"{"aps":{"content-available":1}}"#.utf8), priority: nil)
    },
    GatewayRow("lenient: item 6", .accepted, on: .lenient, cut: true) {
      Frame.items([(1, $0.good), (6, [1]), (2, Frame.payload), (3, [0, 0, 0, 1])])
    },
    GatewayRow("lenient: not JSON", .accepted, on: .lenient) {
      Frame.framed(1, $0.good, Array("alert".utf8))
    },
    GatewayRow("lenient: priority 0", .accepted, on: .lenient) {
      Frame.framed(1, $0.good, priority: 0)
    },
    GatewayRow("lenient: priority 7", .refused("0801 00000001"), on: .lenient) {
      Frame.framed(1, $0.good, priority: 7)
    },
    GatewayRow("lenient: an item past the frame", .refused("0880 00000005"), on: .lenient) { _ in
      Frame.raw(hex("03 0004 00000005 06 0020 00"))
    },
  ]
}
