import ApusModel
import Testing

struct HeaderNameTests {
  /// Apple's "Sending notification requests to APNs" and RFC 9113, section 8.3, spelled by hand.
  static let names: [(String, HeaderName)] = [
    (":method", .method), (":path", .path), (":scheme", .scheme), (":authority", .authority),
    ("host", .host), ("authorization", .authorization), ("apns-id", .apnsID),
    ("apns-push-type", .apnsPushType), ("apns-expiration", .apnsExpiration),
    ("apns-priority", .apnsPriority), ("apns-topic", .apnsTopic),
    ("apns-collapse-id", .apnsCollapseID), ("apns-request-id", .apnsRequestID),
    ("apns-channel-id", .apnsChannelID), ("content-length", .contentLength),
    (":status", .status), ("content-type", .contentType), ("apns-unique-id", .apnsUniqueID),
  ]

  func find(_ name: [UInt8]) -> HeaderName? { HeaderName(name.span) }

  @Test("Every name of the table is found", arguments: names)
  func found(text: String, name: HeaderName) {
    #expect(find(Array(text.utf8)) == name)
    #expect(name.text.description == text)
  }

  @Test("The table contains every case")
  func complete() {
    #expect(Set(Self.names.map(\.1)) == Set(HeaderName.allCases))
  }

  @Test("A name with any one byte changed is another name", arguments: names)
  func changed(text: String, name: HeaderName) {
    let bytes = Array(text.utf8)
    for index in bytes.indices {
      for value in UInt8.min...UInt8.max where value != bytes[index] {
        var near = bytes
        near[index] = value
        #expect(find(near) == nil, "\(near)")
      }
    }
  }

  @Test("A shorter or a longer text is another name", arguments: names)
  func lengths(text: String, name: HeaderName) {
    let bytes = Array(text.utf8)
    for count in 0..<bytes.count { #expect(find(Array(bytes[..<count])) == nil) }
    for index in bytes.indices {
      var shorter = bytes
      shorter.remove(at: index)
      #expect(find(shorter) == nil)
    }
    for extra in [0, 0x20, 0x2d, 0x61] as [UInt8] {
      #expect(find(bytes + [extra]) == nil)
      #expect(find([extra] + bytes) == nil)
    }
  }

  @Test("HTTP/2 names are lower case only, and any other spelling is unknown", arguments: names)
  func upperCase(text: String, name: HeaderName) {
    #expect(find(Array(text.uppercased().utf8)) == nil)
  }

  @Test("Texts of any length that are not names are unknown, including the empty text")
  func unknown() {
    for count in 0...300 {
      #expect(find([UInt8](repeating: 0x61, count: count)) == nil)
      #expect(find([UInt8](repeating: 0x3a, count: count)) == nil)
    }
  }
}
