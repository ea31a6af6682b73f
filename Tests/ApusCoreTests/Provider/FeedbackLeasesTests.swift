import ApusRandom
import ApusCore
import ApusModel
import Testing

struct FeedbackLeasesTests {
  static let topic = TopicKey(app: AppID(7))

  static func token(_ number: UInt64) -> DeviceToken { DeviceToken(words: (0, number, 0, 0)) }

  static func row(_ number: UInt64, _ milliseconds: Int64) -> FeedbackLeases.Row {
    FeedbackLeases.Row(token: token(number), milliseconds: milliseconds)
  }

  @Test("A lease has the rows that it took, in that order")
  func order() {
    var leases = FeedbackLeases()
    let lease = leases.open(Self.topic, .production)
    #expect(leases.rows(of: lease) == [])
    #expect(leases.take(Self.token(3), milliseconds: 10, for: lease) == true)
    #expect(leases.take(Self.token(1), milliseconds: 20, for: lease) == true)
    #expect(leases.take(Self.token(2), milliseconds: 20, for: lease) == true)
    #expect(leases.rows(of: lease) == [Self.row(3, 10), Self.row(1, 20), Self.row(2, 20)])
  }

  @Test("A second reader of a list gets only rows that the first was not given")
  func exclusive() {
    var leases = FeedbackLeases()
    let first = leases.open(Self.topic, .production)
    let second = leases.open(Self.topic, .production)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: first) == true)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: second) == false)
    // Renewed while the first reads it: it still belongs to the first.
    #expect(leases.take(Self.token(1), milliseconds: 30, for: second) == false)
    #expect(leases.take(Self.token(2), milliseconds: 20, for: second) == true)
    #expect(leases.take(Self.token(2), milliseconds: 20, for: first) == false)
    #expect(leases.rows(of: first) == [Self.row(1, 10)])
    #expect(leases.rows(of: second) == [Self.row(2, 20)])
  }

  @Test("A token is given out once per lease, however often it is renewed")
  func renewed() {
    var leases = FeedbackLeases()
    let lease = leases.open(Self.topic, .production)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: lease) == true)
    #expect(leases.take(Self.token(1), milliseconds: 20, for: lease) == false)
    #expect(leases.rows(of: lease) == [Self.row(1, 10)])
  }

  @Test("Rows of a closed lease are free, and those of others are not")
  func close() {
    var leases = FeedbackLeases()
    let first = leases.open(Self.topic, .production)
    let second = leases.open(Self.topic, .production)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: first) == true)
    #expect(leases.take(Self.token(2), milliseconds: 20, for: second) == true)
    leases.close(first)
    #expect(leases.count == 1)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: second) == true)
    let third = leases.open(Self.topic, .production)
    #expect(third != first)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: third) == false)
    #expect(leases.take(Self.token(2), milliseconds: 20, for: third) == false)
    leases.close(second)
    #expect(leases.take(Self.token(2), milliseconds: 20, for: third) == true)
  }

  @Test("A closed lease takes nothing, holds nothing, and closes again without effect")
  func closed() {
    var leases = FeedbackLeases()
    let first = leases.open(Self.topic, .production)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: first) == true)
    leases.close(first)
    #expect(leases.rows(of: first) == [])
    #expect(leases.isFull(first))
    let second = leases.open(Self.topic, .production)
    #expect(leases.take(Self.token(2), milliseconds: 10, for: first) == false)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: second) == true)
    leases.close(first)
    #expect(leases.count == 1)
    #expect(leases.rows(of: second) == [Self.row(1, 10)])
    let third = leases.open(Self.topic, .production)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: third) == false)
  }

  @Test(
    "Lists are separate for each app, suffix and environment",
    arguments: [
      (TopicKey(app: AppID(7)), Environment.development),
      (TopicKey(app: AppID(7), suffix: .voip), .production),
      (TopicKey(app: AppID(8)), .production),
    ])
  func lists(topic: TopicKey, environment: Environment) {
    var leases = FeedbackLeases()
    let first = leases.open(Self.topic, .production)
    let other = leases.open(topic, environment)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: first) == true)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: other) == true)
    leases.close(other)
    let second = leases.open(Self.topic, .production)
    #expect(leases.take(Self.token(1), milliseconds: 10, for: second) == false)
  }

  @Test("A full lease takes no more rows, and those it refused are for the next lease")
  func full() {
    var leases = FeedbackLeases()
    let limit = UInt64(Limits.feedbackTuplesPerConnection)
    let first = leases.open(Self.topic, .production)
    for number in 0..<limit {
      if leases.isFull(first) || !leases.take(Self.token(number), milliseconds: 5, for: first) {
        Issue.record("token \(number) was refused")
        return
      }
    }
    #expect(leases.isFull(first))
    #expect(leases.take(Self.token(limit), milliseconds: 5, for: first) == false)
    #expect(leases.rows(of: first).count == Int(limit))
    let second = leases.open(Self.topic, .production)
    #expect(leases.take(Self.token(limit), milliseconds: 5, for: second) == true)
  }

  /// The same by searching: all rows of all open leases in one array.
  struct Model {
    struct Held: Equatable {
      var lease: FeedbackLeases.ID
      var list: Int
      var row: FeedbackLeases.Row
    }

    var held: [Held] = []
    var open: [(id: FeedbackLeases.ID, list: Int)] = []

    func rows(of lease: FeedbackLeases.ID) -> [FeedbackLeases.Row] {
      held.filter { $0.lease == lease }.map(\.row)
    }
  }

  @Test(
    "Every row is in at most one lease, and free again after it",
    arguments: 1...20 as ClosedRange<UInt64>)
  func walk(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    var leases = FeedbackLeases(maximumRows: 12)
    var model = Model()
    let lists = [(Self.topic, Environment.production), (Self.topic, .development)]
    for step in 0..<1500 {
      let place = Comment("seed \(seed), step \(step)")
      switch Int.random(in: 0..<20, using: &random) {
      case 0:
        let list = Int.random(in: 0..<2, using: &random)
        let id = leases.open(lists[list].0, lists[list].1)
        #expect(!model.open.contains { $0.id == id }, place)
        model.open.append((id, list))
      case 1:
        guard let index = model.open.indices.randomElement(using: &random) else { continue }
        let id = model.open.remove(at: index).id
        #expect(leases.rows(of: id) == model.rows(of: id), place)
        leases.close(id)
        model.held.removeAll { $0.lease == id }
      default:
        guard let lease = model.open.randomElement(using: &random) else { continue }
        let row = Self.row(
          .random(in: 0..<40, using: &random), .random(in: 0..<3, using: &random))
        let isFree = !model.held.contains { $0.list == lease.list && $0.row.token == row.token }
        let hasRoom = model.rows(of: lease.id).count < 12
        #expect(leases.isFull(lease.id) == !hasRoom, place)
        let isTaken = leases.take(row.token, milliseconds: row.milliseconds, for: lease.id)
        try #require(isTaken == (isFree && hasRoom), place)
        if isTaken { model.held.append(.init(lease: lease.id, list: lease.list, row: row)) }
      }
      #expect(leases.count == model.open.count, place)
    }
  }
}
