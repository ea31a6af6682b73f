import ApusModel
import ApusWire

/// The same outcomes computed slowly: the bytes are first split into fields, and each rule is checked in all of them.
struct BinaryReference {
  var limits: BinaryFrameLimits

  private struct Item {
    var number: UInt8
    var value: [UInt8]
  }

  func verdict(_ bytes: [UInt8]) -> BinaryVerdict {
    switch bytes[0] {
    case 0: plain(bytes, .simple, tokenLengthAt: 1)
    case 1: plain(bytes, .enhanced, tokenLengthAt: 9)
    case 2: framed(bytes)
    default: .fault(.unknownCommand(bytes[0]), nil, nil)
    }
  }

  private func number(_ bytes: some Collection<UInt8>) -> Int {
    bytes.reduce(0) { $0 * 256 + Int($1) }
  }

  private func lengthFault(_ token: Int?, _ payload: Int?, limit: Int) -> BinaryFrameFault? {
    if token == 0 { return .tokenMissing }
    if let token, token < limits.tokenBytes.lowerBound || token > limits.tokenBytes.upperBound {
      return .tokenLength(byteCount: token)
    }
    if payload == 0 { return .payloadMissing }
    if let payload, payload > limit {
      return .payloadTooLong(byteCount: payload, limit: limit)
    }
    return nil
  }

  private func plain(
    _ bytes: [UInt8], _ command: BinaryCommand, tokenLengthAt start: Int
  ) -> BinaryVerdict {
    var rest = bytes[...]
    func take(_ count: Int) -> [UInt8]? {
      guard rest.count >= count else { return nil }
      defer { rest = rest.dropFirst(count) }
      return Array(rest.prefix(count))
    }
    guard let head = take(start), let tokenLength = take(2).map(number) else { return .incomplete }
    let identifier = command == .enhanced ? UInt32(number(head[1...4])) : nil
    let expiration = command == .enhanced ? UInt32(number(head[5...8])) : nil
    let token = lengthFault(tokenLength, nil, limit: 0)
    if let token { return .fault(token, command, identifier) }
    guard let token = take(tokenLength), let payloadLength = take(2).map(number) else {
      return .incomplete
    }
    let fault = lengthFault(nil, payloadLength, limit: limits.simplePayloadBytes)
    if let fault { return .fault(fault, command, identifier) }
    guard let payload = take(payloadLength) else { return .incomplete }
    return .frame(
      BinaryFields(
        command: command, byteCount: bytes.count - rest.count, token: token, payload: payload,
        identifier: identifier, expiration: expiration, priority: nil))
  }

  private func framed(_ bytes: [UInt8]) -> BinaryVerdict {
    guard bytes.count >= 5 else { return .incomplete }
    let length = number(bytes[1..<5])
    guard length <= 131_072 else {
      return .fault(.frameTooLong(byteCount: length), .framed, nil)
    }
    guard bytes.count >= 5 + length else { return .incomplete }

    var items: [Item] = []
    var rest = bytes[5..<5 + length]
    while rest.count >= 3, rest.count >= 3 + number(rest.dropFirst().prefix(2)) {
      let size = number(rest.dropFirst().prefix(2))
      items.append(
        Item(number: rest.first ?? 0, value: Array(rest.dropFirst(3).prefix(size))))
      rest = rest.dropFirst(3 + size)
    }

    func first(_ number: UInt8) -> [UInt8]? { items.first { $0.number == number }?.value }
    let identifier = items.first { $0.number == 3 && $0.value.count == 4 }
      .map { UInt32(number($0.value)) }
    let token = first(1) ?? []
    let payload = first(2) ?? []
    let fault =
      framingFault(items) ?? (rest.isEmpty ? nil : .itemBeyondFrame)
      ?? lengthFault(token.count, payload.count, limit: limits.framedPayloadBytes)
    if let fault { return .fault(fault, .framed, identifier) }
    return .frame(
      BinaryFields(
        command: .framed, byteCount: 5 + length, token: token, payload: payload,
        identifier: identifier, expiration: first(4).map { UInt32(number($0)) },
        priority: first(5)?[0]))
  }

  /// The first invalid item.
  private func framingFault(_ items: [Item]) -> BinaryFrameFault? {
    let sizes: [UInt8: Int] = [3: 4, 4: 4, 5: 1]
    for (index, item) in items.enumerated() {
      if !(1...5).contains(item.number) {
        if limits.skipsUnknownItems { continue }
        return .unknownItem(item.number)
      }
      if items[..<index].contains(where: { $0.number == item.number }) {
        return .repeatedItem(item.number)
      }
      if let size = sizes[item.number], size != item.value.count {
        return .itemLength(item: item.number, byteCount: item.value.count)
      }
    }
    return nil
  }
}
