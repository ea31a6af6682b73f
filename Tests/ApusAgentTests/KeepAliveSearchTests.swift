import Testing

@testable import ApusAgent

@Suite("The search for the longest silence")
struct KeepAliveSearchTests {
  /// Goes on until nothing changes, in a network that forgets a connection after `limit` seconds.
  private func intervals(_ search: inout KeepAliveSearch, limit: Int) -> [Int] {
    var intervals = [search.intervalSeconds]
    for _ in 0..<40 {
      let silence = search.intervalSeconds
      let hasChanged =
        silence < limit
        ? search.answered(afterSeconds: silence) : search.lost(afterSeconds: silence)
      if !hasChanged { break }
      intervals.append(search.intervalSeconds)
    }
    return intervals
  }

  @Test("Without a limit it grows by half up to the longest")
  func grows() {
    var search = KeepAliveSearch(bounds: KeepAliveBounds())
    #expect(intervals(&search, limit: .max) == [60, 90, 135, 202, 303, 454, 681, 900])
    #expect(search.isSettled)
  }

  @Test(
    "It settles below the limit and within reach of it", arguments: [65, 100, 125, 180, 300, 899])
  func settles(limit: Int) {
    var search = KeepAliveSearch(bounds: KeepAliveBounds())
    _ = intervals(&search, limit: limit)
    #expect(search.isSettled)
    #expect(search.intervalSeconds < limit)
    #expect(search.intervalSeconds >= 60 && search.intervalSeconds * 2 > limit)
  }

  @Test("With a limit of 100 s it tries 90 and 135, and takes nine tenths of 90")
  func example() {
    var search = KeepAliveSearch(bounds: KeepAliveBounds())
    #expect(intervals(&search, limit: 100) == [60, 90, 135, 112, 81])
  }

  @Test("What worked once and works no longer is searched for again")
  func worsens() {
    var search = KeepAliveSearch(bounds: KeepAliveBounds())
    _ = intervals(&search, limit: .max)
    let tried = intervals(&search, limit: 100)
    #expect(tried == [900, 60, 480, 270, 165, 112, 86, 99, 89])
  }

  @Test("A probe after a short silence says nothing")
  func shortSilence() {
    var search = KeepAliveSearch(bounds: KeepAliveBounds())
    let before = search
    let changes = [search.answered(afterSeconds: 59), search.lost(afterSeconds: 3)]
    #expect(changes == [false, false] && search == before)
  }

  @Test("Equal bounds fix the interval")
  func fixed() {
    var search = KeepAliveSearch(bounds: KeepAliveBounds(minimumSeconds: 50, maximumSeconds: 50))
    let changes = [search.answered(afterSeconds: 50), search.lost(afterSeconds: 50)]
    #expect(changes == [false, false] && search.intervalSeconds == 50 && search.isSettled)
  }

  @Test("Each network keeps its own result, and a restart continues with it")
  func networks() {
    var search = KeepAliveSearch(bounds: KeepAliveBounds())
    _ = intervals(&search, limit: 100)
    var known = KnownNetworks()
    known.remember(search, of: "192.0.2.1-aa:bb")
    #expect(known.text == "192.0.2.1-aa:bb 90 112\n")
    let again = KnownNetworks(text: known.text + "broken line\n")
    #expect(again.search("192.0.2.1-aa:bb", bounds: KeepAliveBounds()).intervalSeconds == 81)
    #expect(again.search("elsewhere", bounds: KeepAliveBounds()).intervalSeconds == 60)
  }

  @Test("A network's name is its router's, of the default route with the smallest metric")
  func name() {
    let routes = """
      Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
      wlan0\t00000000\t0100A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
      eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
      eth0\t000200C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
      """
    let neighbours = """
      IP address       HW type     Flags       HW address            Mask     Device
      192.0.2.1        0x1         0x2         02:00:00:00:00:01     *        eth0
      """
    #expect(
      NetworkName.name(routes: routes, neighbours: neighbours) == "192.0.2.1-02:00:00:00:00:01")
    #expect(NetworkName.name(routes: routes, neighbours: "") == "192.0.2.1-eth0")
    #expect(NetworkName.name(routes: "", neighbours: neighbours) == "none")
  }
}
