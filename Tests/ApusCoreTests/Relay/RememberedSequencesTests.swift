import ApusCore
import ApusModel
import Testing

@Suite("Resends after an error packet")
struct RememberedSequencesTests {
  typealias Matching = RememberedSequences.Matching

  private let sender = RelayDigest(high: 1, low: 1)
  private let other = RelayDigest(high: 2, low: 2)

  private func digest(_ letter: Character) -> RelayDigest {
    RelayDigest(high: 0, low: UInt64(letter.unicodeScalars.first?.value ?? 0))
  }

  /// The notification of that letter, accepted under an id of its own.
  private func entry(_ letter: Character, _ id: UInt64) -> RememberedSequences.Entry {
    .init(digest: digest(letter), original: NotificationID(high: 0, low: id))
  }

  /// Entries with the ids `id`, `id` + 1 and so on.
  private func entries(_ letters: String, from id: UInt64 = 1) -> [RememberedSequences.Entry] {
    letters.enumerated().map { entry($1, id + UInt64($0)) }
  }

  /// A first connection that ends with an error packet.
  @discardableResult
  private func remember(
    _ letters: String, after refused: Character = "k", from id: UInt64 = 1,
    of sender: RelayDigest? = nil, in sequences: inout RememberedSequences, now: Int64 = 1000
  ) -> RememberedSequences.ID? {
    var matching = Matching(sender: sender ?? self.sender)
    return sequences.remember(
      entries(letters, from: id), after: digest(refused), on: &matching, nowSeconds: now)
  }

  /// Sends notifications: for each the low half of the original's id, or "-" for a new one.
  private func send(
    _ letters: String, on matching: inout Matching, in sequences: inout RememberedSequences,
    now: Int64 = 1000
  ) -> String {
    var found: [String] = []
    for letter in letters {
      switch sequences.match(digest(letter), on: &matching, nowSeconds: now) {
      case .new: found.append("-")
      case .suppressed(let original, _): found.append("\(original.low)")
      }
    }
    return found.joined(separator: " ")
  }

  /// The same on a connection of its own.
  private func send(
    _ letters: String, of sender: RelayDigest? = nil, in sequences: inout RememberedSequences,
    now: Int64 = 1000
  ) -> String {
    var matching = Matching(sender: sender ?? self.sender)
    defer { sequences.end(&matching) }
    return send(letters, on: &matching, in: &sequences, now: now)
  }

  private func forgotten(_ sequences: inout RememberedSequences) -> [UInt64] {
    var numbers: [UInt64] = []
    while let id = sequences.nextForgotten() { numbers.append(id.number) }
    return numbers.sorted()
  }

  @Test("Resends are suppressed once, under the ids of their originals, and what follows is new")
  func once() {
    var sequences = RememberedSequences()
    remember("abc", in: &sequences)
    #expect(send("abcdabc", in: &sequences) == "1 2 3 - - - -")
    #expect(send("abc", in: &sequences) == "- - -")
    #expect(sequences.count == 0)
    #expect(forgotten(&sequences) == [1])
  }

  @Test("A sender that begins with the refused notification has it judged again")
  func refusedToo() {
    var sequences = RememberedSequences()
    remember("abc", in: &sequences)
    #expect(send("kabcd", in: &sequences) == "- 1 2 3 -")
  }

  @Test("The first mismatch ends the matching, and a later push with the same content is new")
  func mismatch() {
    var sequences = RememberedSequences()
    remember("abcd", in: &sequences)
    var matching = Matching(sender: sender)
    #expect(send("abxcd", on: &matching, in: &sequences) == "1 2 - - -")
    let isMatching = sequences.isMatching(&matching)
    #expect(!isMatching)
    // What is left is for the next connection.
    #expect(send("cd", in: &sequences) == "3 4")
  }

  @Test("A connection that begins with something else matches nothing later")
  func otherBeginning() {
    var sequences = RememberedSequences()
    remember("abc", in: &sequences)
    #expect(send("xabc", in: &sequences) == "- - - -")
    #expect(send("bc", in: &sequences) == "- -")
    #expect(send("kx", in: &sequences) == "- -")
    #expect(send("abc", in: &sequences) == "1 2 3")
  }

  @Test("Another sender's resends are not its own")
  func senders() {
    var sequences = RememberedSequences()
    remember("ab", in: &sequences)
    remember("ab", from: 5, of: other, in: &sequences)
    #expect(send("ab", of: other, in: &sequences) == "5 6")
    #expect(send("ab", of: other, in: &sequences) == "- -")
    #expect(send("ab", in: &sequences) == "1 2")
  }

  @Test("Two connections of a sender have a sequence each, and select them by their beginning")
  func connections() {
    var sequences = RememberedSequences()
    remember("abc", in: &sequences)
    remember("def", after: "l", from: 4, in: &sequences)
    var first = Matching(sender: sender)
    var second = Matching(sender: sender)
    #expect(send("d", on: &first, in: &sequences) == "4")
    #expect(send("a", on: &second, in: &sequences) == "1")
    #expect(send("ef", on: &first, in: &sequences) == "5 6")
    #expect(send("bc", on: &second, in: &sequences) == "2 3")
  }

  @Test("With the same content, each connection selects another sequence, the oldest first")
  func sameContent() {
    var sequences = RememberedSequences()
    remember("aa", in: &sequences)
    remember("aa", from: 3, in: &sequences)
    var first = Matching(sender: sender)
    var second = Matching(sender: sender)
    var third = Matching(sender: sender)
    #expect(send("a", on: &first, in: &sequences) == "1")
    #expect(send("a", on: &second, in: &sequences) == "3")
    #expect(send("a", on: &third, in: &sequences) == "-")
    #expect(send("a", on: &first, in: &sequences) == "2")
    #expect(send("a", on: &second, in: &sequences) == "4")
  }

  @Test("A connection that was open before the error may bring the resend as its first")
  func opened() {
    var sequences = RememberedSequences()
    var matching = Matching(sender: sender)
    remember("ab", in: &sequences)
    let isMatching = sequences.isMatching(&matching)
    #expect(isMatching)
    #expect(send("ab", on: &matching, in: &sequences) == "1 2")
  }

  @Test("Without a sequence of its sender a connection need not compute digests")
  func idle() {
    var sequences = RememberedSequences()
    var matching = Matching(sender: sender)
    let isMatching = sequences.isMatching(&matching)
    #expect(!isMatching)
    remember("ab", in: &sequences)
    // The first notification has come, unseen.
    #expect(send("ab", on: &matching, in: &sequences) == "- -")
  }

  @Test("A connection that ends half-way leaves the rest to the next one")
  func halfWay() {
    var sequences = RememberedSequences()
    remember("abcd", in: &sequences)
    var matching = Matching(sender: sender)
    #expect(send("ab", on: &matching, in: &sequences) == "1 2")
    #expect(send("cd", in: &sequences) == "- -")
    sequences.end(&matching)
    #expect(send("cd", in: &sequences) == "3 4")
  }

  @Test("A second error makes one sequence of what followed it and what was left")
  func secondError() {
    var sequences = RememberedSequences()
    remember("abcde", in: &sequences)
    var matching = Matching(sender: sender)
    #expect(send("abc", on: &matching, in: &sequences) == "1 2 3")
    // The original of a was refused after the sender sent it again.
    let id = sequences.remember(
      entries("bc", from: 2), after: digest("a"), on: &matching, nowSeconds: 1100)
    #expect(id?.number == 2)
    #expect(forgotten(&sequences) == [1])
    #expect(send("bcdex", in: &sequences) == "2 3 4 5 -")
  }

  @Test("The refused notification may be refused again and again")
  func refusedAgain() {
    var sequences = RememberedSequences()
    remember("abc", in: &sequences)
    for number in 2...4 as ClosedRange<UInt64> {
      var matching = Matching(sender: sender)
      #expect(send("ka", on: &matching, in: &sequences) == "- 1")
      let id = sequences.remember(
        entries("a"), after: digest("k"), on: &matching, nowSeconds: 1000)
      #expect(id?.number == number)
    }
    #expect(send("abc", in: &sequences) == "1 2 3")
  }

  @Test("An error after a mismatch brings nothing back, and one without followers leaves nothing")
  func errorAfterMismatch() {
    var sequences = RememberedSequences()
    remember("abc", in: &sequences)
    var matching = Matching(sender: sender)
    #expect(send("axy", on: &matching, in: &sequences) == "1 - -")
    let id = sequences.remember(
      [entry("y", 9)], after: digest("x"), on: &matching, nowSeconds: 1000)
    #expect(id?.number == 2)
    #expect(send("yb", in: &sequences) == "9 -")
    var alone = Matching(sender: sender)
    #expect(send("z", on: &alone, in: &sequences) == "-")
    let none = sequences.remember([], after: digest("z"), on: &alone, nowSeconds: 1000)
    #expect(none == nil)
  }

  @Test("Ten minutes after the error packet nothing matches, and the rows are deleted")
  func expiry() {
    var sequences = RememberedSequences()
    remember("abc", in: &sequences)
    var matching = Matching(sender: sender)
    #expect(send("a", on: &matching, in: &sequences, now: 1599) == "1")
    #expect(send("b", on: &matching, in: &sequences, now: 1600) == "-")
    remember("def", in: &sequences, now: 1001)
    sequences.expire(nowSeconds: 1600)
    #expect(forgotten(&sequences) == [1])
    #expect(send("d", in: &sequences, now: 1601) == "-")
    sequences.expire(nowSeconds: 1601)
    #expect(forgotten(&sequences) == [2])
    #expect(sequences.count == 0)
  }

  @Test("A clock set back by ten minutes or more forgets")
  func clock() {
    var sequences = RememberedSequences()
    remember("abc", in: &sequences)
    #expect(send("a", in: &sequences, now: 401) == "1")
    #expect(send("b", in: &sequences, now: 400) == "-")
    sequences.expire(nowSeconds: 400)
    #expect(sequences.count == 0)
  }

  @Test("Of a longer sequence the end is forgotten")
  func long() {
    var sequences = RememberedSequences()
    var matching = Matching(sender: sender)
    let count = Limits.rememberedPerSequence
    let many = (0...UInt64(count)).map {
      RememberedSequences.Entry(
        digest: RelayDigest(high: 1, low: $0), original: NotificationID(high: 0, low: $0))
    }
    let id = sequences.remember(many, after: digest("k"), on: &matching, nowSeconds: 1000)
    #expect(sequences.count == count)
    var last: RememberedNotification?
    if let id { sequences.forEachRow(of: id) { last = $0 } }
    #expect(last?.place.index == UInt32(count))
    #expect(last?.digest == RelayDigest(high: 1, low: UInt64(count) - 1))
  }

  @Test("A sender with too many sequences loses its oldest")
  func manySequences() {
    var sequences = RememberedSequences()
    remember("z", of: other, in: &sequences)
    for id in 0...UInt64(Limits.rememberedSequencesPerSender) {
      remember(id == 0 ? "a" : "b", from: id, in: &sequences)
    }
    #expect(forgotten(&sequences) == [2])
    #expect(send("a", in: &sequences) == "-")
    #expect(send("b", in: &sequences) == "1")
    #expect(send("z", of: other, in: &sequences) == "1")
  }

  @Test("When all is full, the sender with the most notifications loses its oldest sequence")
  func full() {
    var sequences = RememberedSequences(capacity: Limits.rememberedPerSequence)
    let most = String(repeating: "m", count: Limits.rememberedPerSequence - 4)
    remember("ab", of: other, in: &sequences)
    remember(most, from: 10, in: &sequences)
    #expect(forgotten(&sequences).isEmpty)
    remember("cd", of: other, in: &sequences)
    #expect(forgotten(&sequences).isEmpty)
    remember("n", in: &sequences)
    #expect(forgotten(&sequences) == [2])
    #expect(sequences.count == 5)
    #expect(send("ab", of: other, in: &sequences) == "1 2")
    #expect(send("n", in: &sequences) == "1")
    #expect(remember(most + "mmmm", in: &sequences) == nil)
  }

  @Test("The rows of a sequence are numbered from 1, after the refused notification")
  func rows() throws {
    var sequences = RememberedSequences()
    let id = try #require(remember("ab", in: &sequences))
    var rows: [RememberedNotification] = []
    sequences.forEachRow(of: id) { rows.append($0) }
    func row(_ index: UInt32, _ letter: Character, _ id: UInt64?) -> RememberedNotification {
      RememberedNotification(
        place: .init(sender: sender, sequence: 1, index: index), digest: digest(letter),
        original: id.map { NotificationID(high: 0, low: $0) }, expiresSeconds: 1600)
    }
    #expect(rows == [row(0, "k", nil), row(1, "a", 1), row(2, "b", 2)])
    var matching = Matching(sender: sender)
    let match = sequences.match(digest("a"), on: &matching, nowSeconds: 1000)
    let original = NotificationID(high: 0, low: 1)
    #expect(match == .suppressed(original: original, place: rows[1].place))
  }

  @Test("What the store has is matched after a start, from the first row that is left")
  func restored() {
    var sequences = RememberedSequences()
    func row(_ number: UInt64, _ index: UInt32, _ letter: Character, _ id: UInt64?)
      -> RememberedNotification
    {
      RememberedNotification(
        place: .init(sender: sender, sequence: number, index: index), digest: digest(letter),
        original: id.map { NotificationID(high: 0, low: $0) }, expiresSeconds: 1600)
    }
    for row in [
      row(7, 0, "k", nil), row(7, 3, "c", 3), row(7, 4, "d", 4), row(7, 6, "f", 6),
      row(9, 1, "x", 8),
    ] { sequences.restore(row) }
    #expect(sequences.count == 3)
    var matching = Matching(sender: sender)
    #expect(send("kc", on: &matching, in: &sequences) == "- 3")
    let match = sequences.match(digest("d"), on: &matching, nowSeconds: 1000)
    let place = RememberedNotification.Place(sender: sender, sequence: 7, index: 4)
    #expect(match == .suppressed(original: NotificationID(high: 0, low: 4), place: place))
    #expect(forgotten(&sequences) == [7])
    #expect(send("x", in: &sequences) == "8")
    // Numbers go on after the highest one.
    #expect(remember("y", in: &sequences)?.number == 10)
  }
}
