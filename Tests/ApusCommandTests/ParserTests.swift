import ApusModel
import Testing

@testable import ApusCommand

/// Parses as `apus` does, with files from a dictionary.
func parse(
  _ line: String, environment: [String: String] = [:], files: [String: String] = [:]
) throws -> Request {
  let parser = CommandLineParser(program: .apus, environment: environment) { files[$0] }
  return try parser.parse(line.split(separator: " ").map(String.init))
}

func invocation(
  _ line: String, environment: [String: String] = [:], files: [String: String] = [:]
) throws -> Invocation {
  guard case .run(let invocation) = try parse(line, environment: environment, files: files) else {
    throw CommandFailure(.usage, "asks for help")
  }
  return invocation
}

/// The failure of a command line; nil if it parses.
func failure(
  _ line: String, environment: [String: String] = [:], files: [String: String] = [:]
) -> CommandFailure? {
  do {
    _ = try parse(line, environment: environment, files: files)
    return nil
  } catch {
    return error as? CommandFailure
  }
}

@Suite("Command lines")
struct ParserTests {
  @Test("A flag's value follows a space or an equals sign")
  func flagForms() throws {
    #expect(try invocation("serve --workers 3")[ApusOptions.workers] == 3)
    #expect(try invocation("serve --workers=3")[ApusOptions.workers] == 3)
    #expect(try invocation("send --token ab --payload-file -")[ApusOptions.payloadFile] == "-")
    #expect(try invocation("send --token ab --alert=")[ApusOptions.alert] == "")
    #expect(try invocation("send --token ab --alert -x")[ApusOptions.alert] == "-x")
  }

  @Test("The last of two identical flags counts")
  func lastCounts() throws {
    #expect(try invocation("serve --workers 3 --workers 4")[ApusOptions.workers] == 4)
  }

  @Test("A flag that may be repeated keeps its values in order")
  func repeated() throws {
    let names = try invocation("init --name b --name a --name b")
    #expect(names.all(ApusOptions.name) == ["b", "a", "b"])
    let addresses = [HostPort(host: "a", port: 1), HostPort(host: "b", port: 2)]
    for (line, environment) in [
      ("listen --to a:1 --to b:2", [:]), ("listen", ["APUS_LISTEN_TO": "a:1, b:2"]),
    ] {
      let listen = try invocation(line, environment: environment)
      #expect(listen.all(ApusOptions.courier) == addresses)
    }
  }

  @Test("A switch is on if given, and a value can turn it off")
  func switches() throws {
    #expect(try !invocation("serve").isOn(ApusOptions.ephemeral))
    #expect(try invocation("serve --ephemeral").isOn(ApusOptions.ephemeral))
    let environment = ["APUS_EPHEMERAL": "yes"]
    #expect(try invocation("serve", environment: environment).isOn(ApusOptions.ephemeral))
    let off = try invocation("serve --ephemeral=no", environment: environment)
    #expect(!off.isOn(ApusOptions.ephemeral))
  }

  @Test("Optional options may be missing or have defaults")
  func defaults() throws {
    let serve = try invocation("serve")
    #expect(serve.value(ApusOptions.data) == "./apus-data")
    let everywhere = { ListenAddresses([ListenAddress(.everywhere(port: $0))]) }
    #expect(serve.value(ApusOptions.http2Listen) == everywhere(2197))
    #expect(serve.value(ApusOptions.courierDevelopmentListen) == everywhere(5224))
    #expect(!serve.isGiven(ApusOptions.http2Listen))
    #expect(try invocation("serve --http2-listen 2197").isGiven(ApusOptions.http2Listen))
    #expect(try invocation("send --token ab")[ApusOptions.badge] == nil)
  }

  @Test("A flag has the meaning that the table gives it for each command")
  func sharedFlags() throws {
    let device = try invocation("device add --name kitchen")
    #expect(device[DeviceOptions.name]?.text == "kitchen")
    let listen = try invocation("listen --certificate c --key k --to example.com:443")
    #expect(listen[ApusOptions.deviceKey] == "k")
    #expect(listen.value(ApusOptions.courier) == HostPort(host: "example.com", port: 443))
  }

  @Test(
    "A device pings after 15 minutes of silence, after a time of its own up to a day, or never",
    arguments: [
      ("", 900_000), ("--keep-alive 240", 240_000), ("--keep-alive 4m", 240_000),
      ("--keep-alive 1d", 86_400_000), ("--keep-alive 0", 0),
    ])
  func keepAlive(option: String, milliseconds: UInt64) throws {
    let listen = try invocation("listen --certificate c --key k \(option)")
    #expect(listen.keepAliveMilliseconds == milliseconds)
  }

  @Test("Any other time to a ping is an error", arguments: ["-1", "86401", "2d", "never", "0.5"])
  func badKeepAlive(text: String) {
    #expect(failure("listen --keep-alive=\(text)")?.problem.contains(text) == true)
    #expect(failure("serve --keep-alive 240") != nil)
  }

  @Test(
    "Help is recognized anywhere on the command line",
    arguments: ["--help", "-h", "serve --help", "serve --workers 3 -h", "send --help"])
  func help(line: String) throws {
    guard case .help(let command) = try parse(line) else {
      Issue.record("\(line) is not a request for help")
      return
    }
    #expect(command?.name == (line.hasPrefix("-") ? nil : String(line.prefix { $0 != " " })))
  }

  @Test("Operands may begin with hyphens after --")
  func operands() throws {
    #expect(try invocation("completions bash").operands == ["bash"])
    #expect(try invocation("completions -- --x").operands == ["--x"])
    #expect(failure("completions")?.problem == "SHELL is missing")
    #expect(failure("help a b")?.problem == "unexpected argument \"b\"")
    #expect(failure("serve workers")?.remedy?.hasPrefix("Did you mean --workers?\n") == true)
  }
}

@Suite("Precedence of sources")
struct PrecedenceTests {
  private let files = [
    "./apus-data/apus.conf": "# Ours.\n\n  workers = 1  \nname = a, b\nname=c\n",
    "/etc/apus.conf": "workers = 7\ndata = /srv/apus\n",
  ]

  @Test("A flag overrides the environment, which overrides the file, which overrides the default")
  func order() throws {
    let variable = ["APUS_WORKERS": "2"]
    #expect(try invocation("serve")[ApusOptions.workers] == 0)
    #expect(try invocation("serve", files: files)[ApusOptions.workers] == 1)
    #expect(
      try invocation("serve", environment: variable, files: files)[ApusOptions.workers] == 2)
    #expect(
      try invocation("serve --workers 3", environment: variable, files: files)[ApusOptions.workers]
        == 3)
  }

  @Test("The file in the data directory is used unless another one is named")
  func whichFile() throws {
    let elsewhere = ["/srv/apus.conf": "workers = 4"]
    #expect(try invocation("serve --data /srv", files: elsewhere)[ApusOptions.workers] == 4)
    let named = try invocation("serve --config /etc/apus.conf", files: files)
    #expect(named[ApusOptions.workers] == 7)
    #expect(named[ApusOptions.data] == "/srv/apus")
    let environment = ["APUS_CONFIG": "/etc/apus.conf"]
    #expect(
      try invocation("serve", environment: environment, files: files)[ApusOptions.workers] == 7)
  }

  @Test("Several values of a stronger source replace all of a weaker one")
  func lists() throws {
    let all = { try invocation($0, environment: $1, files: self.files).all(ApusOptions.name) }
    #expect(try all("init", [:]) == ["a", "b", "c"])
    #expect(try all("init", ["APUS_NAME": "d e,f"]) == ["d", "e", "f"])
    #expect(try all("init --name g", ["APUS_NAME": "d e,f"]) == ["g"])
  }

  @Test("An empty variable counts as unset")
  func emptyVariable() throws {
    #expect(try invocation("serve", environment: ["APUS_WORKERS": ""])[ApusOptions.workers] == 0)
  }

  @Test("A flag for one call only is not read from the environment")
  func flagOnly() throws {
    let environment = ["APUS_TOKEN": "ab", "APUS_ALERT": "hi", "APUS_JSON": "yes"]
    #expect(failure("send", environment: environment)?.problem == "--token is missing")
    let send = try invocation("send --token cd", environment: environment)
    #expect(send[ApusOptions.alert] == nil && !send.isOn(ApusOptions.json))
  }

  @Test("A misspelt variable causes a warning, an unrelated one does not")
  func misspeltVariable() throws {
    let environment = ["APUS_WORKRES": "3", "APUS_SOMETHING_ELSE": "1", "WORKERS": "2"]
    #expect(
      try invocation("serve", environment: environment).warnings
        == ["APUS_WORKRES (environment) has no effect; did you mean APUS_WORKERS?"])
  }
}
