import ApusModel

/// Why the topics of a provider certificate cannot be read.
package enum TopicsExtensionFault: Error, Sendable, Hashable {
  case der(DERFault)
  /// More topics than `TopicsExtension.topicLimit`, or more labels of one than `labelLimit`.
  case tooMany
  /// A text that is empty, too long, not UTF-8 or contains control characters; at which byte.
  case text(at: Int)
}

/// The topics in a certificate's extension 1.2.840.113635.100.6.3.6 (and 6.3.4, for VoIP).
///
/// `SEQUENCE { topic UTF8String, SEQUENCE { label UTF8String }, … }`, topics and labels alternating. Apple documents
/// the extension ("Sending notification requests to APNs", `apns-topic`) but not its form, which is that of issued
/// certificates. The labels seen are `app`, `voip` and `complication`.
package struct TopicsExtension: Sendable, Hashable {
  package struct Entry: Sendable, Hashable {
    package var topic: String
    /// The uses of the topic; at least one.
    package var labels: [String]

    package init(topic: String, labels: [String]) {
      self.topic = topic
      self.labels = labels
    }
  }

  /// Topics in one extension. Certificates in use have fewer than ten.
  package static let topicLimit = 1000
  /// Labels of one topic. Certificates in use have one.
  package static let labelLimit = 8
  /// Bytes of a label.
  package static let labelBytes = 64

  package var entries: [Entry]

  package init(entries: [Entry]) { self.entries = entries }

  /// Reads the extension's value, the content of its OCTET STRING.
  package static func parse(_ bytes: Span<UInt8>) throws(TopicsExtensionFault) -> TopicsExtension {
    do {
      var outer = DERReader(bytes)
      let content = try outer.element(DER.Tag.sequence)
      try outer.expectEnd()
      var reader = DERReader(bytes, within: content)
      var entries: [Entry] = []
      while !reader.isAtEnd {
        guard entries.count < topicLimit else { throw TopicsExtensionFault.tooMany }
        let topic = try text(&reader, limit: Limits.topicBytes)
        let labels = try labels(&reader)
        entries.append(Entry(topic: topic, labels: labels))
      }
      return TopicsExtension(entries: entries)
    } catch let fault as DERFault {
      throw .der(fault)
    } catch let fault as TopicsExtensionFault {
      throw fault
    } catch {
      preconditionFailure("the reader throws two kinds of faults")
    }
  }

  /// The extension's value for issuing a certificate.
  package var der: [UInt8] {
    DER.sequence(
      entries.flatMap { [DER.utf8($0.topic), DER.sequence($0.labels.map(DER.utf8))] })
  }

  private static func labels(_ reader: inout DERReader) throws -> [String] {
    let content = try reader.element(DER.Tag.sequence)
    var inner = DERReader(reader.bytes, within: content)
    var labels: [String] = []
    repeat {
      guard labels.count < labelLimit else { throw TopicsExtensionFault.tooMany }
      labels.append(try text(&inner, limit: labelBytes))
    } while !inner.isAtEnd
    return labels
  }

  private static func text(_ reader: inout DERReader, limit: Int) throws -> String {
    let range = try reader.element(DER.Tag.utf8String)
    guard (1...limit).contains(range.count) else {
      throw TopicsExtensionFault.text(at: range.lowerBound)
    }
    let bytes = reader.bytes.extracting(range).copied()
    guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }),
      let text = String(validating: bytes, as: UTF8.self)
    else { throw TopicsExtensionFault.text(at: range.lowerBound) }
    return text
  }
}
