import Testing

@testable import ApusCommand

@Suite("Errors on the command line")
struct FailureTests {
  @Test(
    "An error names its source",
    arguments: [
      ("frobnicate", "unknown command \"frobnicate\""),
      ("--data x serve", "the command must come before --data"),
      ("serve --wokers 3", "unknown option --wokers"),
      ("serve --workers", "--workers needs a value"),
      ("serve --workers --json", "--workers needs a value"),
      ("serve --workers many", "--workers: \"many\" is not a whole number from 0 to 256"),
      ("serve --workers -1", "--workers: \"-1\" is not a whole number from 0 to 256"),
      ("serve --ephemeral=perhaps", "--ephemeral: \"perhaps\" is neither yes nor no"),
      ("send --alert hi", "--token is missing"),
      (
        "send --token abc",
        "--token: \"abc\" is not a device token: an even number of hexadecimal digits"
      ),
      (
        "send --token ab --push-type alrt",
        "--push-type: \"alrt\" is not one of alert, background, complication, controls, fileprovider, "
          + "liveactivity, location, mdm, pushtotalk, voip, widgets; did you mean alert?"
      ),
      (
        "serve --config none.conf", "--config: the file none.conf does not exist"
      ),
    ])
  func description(line: String, expected: String) {
    #expect(failure(line)?.description == expected)
  }

  @Test("An error in the environment names the variable")
  func environment() {
    let failure = failure("serve", environment: ["APUS_WORKERS": "x"])
    #expect(
      failure?.description
        == "APUS_WORKERS (environment): \"x\" is not a whole number from 0 to 256")
    #expect(failure?.code == .usage)
  }

  @Test(
    "An error in the file has its line",
    arguments: [
      (
        "\n# x\nworkers = x\n", "a.conf, line 3, workers: \"x\" is not a whole number from 0 to 256"
      ),
      ("workers = 1\r\nwokers = 1", "a.conf, line 2, wokers: unknown setting"),
      ("workers = 1\nworkers = 2", "a.conf, line 2, workers: the setting is already on line 1"),
      ("workers 3", "a.conf, line 1: \"workers 3\" is not a setting"),
      ("[serve]", "a.conf, line 1: \"[serve]\" is not a setting"),
      ("= 3", "a.conf, line 1: \"= 3\" is not a setting"),
    ])
  func file(text: String, expected: String) {
    #expect(failure("serve --config a.conf", files: ["a.conf": text])?.description == expected)
  }

  @Test("The file may contain settings of other commands")
  func settingsOfOthers() {
    #expect(failure("device --config a.conf", files: ["a.conf": "workers = x"]) == nil)
  }

  @Test("The file in the data directory cannot change the data directory")
  func circularData() {
    let files = ["./apus-data/apus.conf": "data = /elsewhere"]
    #expect(failure("serve", files: files)?.origin != nil)
  }

  @Test(
    "A near miss gets a suggestion",
    arguments: [
      ("sevre", "Did you mean `apus serve`?"),
      ("completion bash", "Did you mean `apus completions`?"),
      ("serve --http2-lisen 1", "Did you mean --http2-listen?"),
      ("serve --hlep", "Did you mean --help?"),
      ("serve --badge 3", "It is an option of `apus send`."),
    ])
  func suggestion(line: String, expected: String) {
    #expect(failure(line)?.remedy?.hasPrefix(expected + "\n") == true)
  }

  @Test("A long value is not repeated in full")
  func longValue() {
    let value = String(repeating: "x", count: 100)
    #expect(
      failure("serve --workers \(value)")?.problem
        == "\"\(value.prefix(57))...\" is not a whole number from 0 to 256")
  }

  @Test("A word unlike any other gets no suggestion")
  func noSuggestion() {
    #expect(failure("xyzzy")?.remedy == "`apus help` lists the commands.")
  }

  @Test("Distance counts insertions, deletions, replacements and swapped neighbours")
  func distance() {
    func distance(_ left: String, _ right: String) -> Int {
      Suggestion.distance(Array(left), Array(right))
    }
    #expect(distance("", "abc") == 3)
    #expect(distance("abc", "abc") == 0)
    #expect(distance("abcd", "acbd") == 1)
    #expect(distance("kitten", "sitting") == 3)
  }

  @Test("A failure has a text for people and an object for scripts")
  func forms() {
    let failure = CommandFailure(
      .configuration, "no \"such\" file", origin: .flag("--key"), remedy: "Make one.\nOr two.")
    #expect(
      failure.text(speaker: "apus send")
        == "apus send: --key: no \"such\" file\n  Make one.\n  Or two.\n")
    #expect(
      failure.json.text
        == #"{"error":"--key: no \"such\" file","exit_code":4,"remedy":"Make one.\nOr two."}"#)
  }
}
