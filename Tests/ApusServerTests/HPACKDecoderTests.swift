import ApusTesting
import Testing

/// The tests' own decoder, against the examples of RFC 7541, appendix C.
@Suite("The raw client reads header blocks")
struct HPACKDecoderTests {
  @Test("Three responses with Huffman coding and a dynamic table: appendix C.6, without evictions")
  func responses() throws {
    var decoder = HPACKDecoder()
    let first = try decoder.decode(
      hex(
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6"
          + "2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3"))
    #expect(
      first.map(\.description) == [
        ":status: 302", "cache-control: private", "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
      ])
    let second = try decoder.decode(hex("4883 640e ffc1 c0bf"))
    #expect(
      second.map(\.description) == [
        ":status: 307", "cache-control: private", "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
      ])
  }

  @Test("A literal without indexing keeps its name and value: appendix C.2.2")
  func literal() throws {
    var decoder = HPACKDecoder()
    let headers = try decoder.decode(hex("040c 2f73 616d 706c 652f 7061 7468"))
    #expect(headers.map(\.description) == [":path: /sample/path"])
  }

  @Test("Padding that is not ones is an error")
  func padding() {
    var decoder = HPACKDecoder()
    #expect(throws: HPACKDecoder.Fault.huffman) { try decoder.decode(hex("0884 ffff ffff")) }
  }
}
