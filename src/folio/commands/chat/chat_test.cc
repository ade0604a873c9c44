#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "folio/commands/chat/conversation.h"
#include "folio/commands/train/test_train.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A program at a terminal of 80 columns that this process types at.
class AtTerminal {
 public:
  AtTerminal(const fs::path& home, std::vector<std::string> words) {
    winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    setenv("HOME", home.c_str(), 1);
    setenv("TERM", "xterm-256color", 1);
    for (const char* name : {"XDG_STATE_HOME", "NO_COLOR", "FORCE_COLOR"}) unsetenv(name);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  ~AtTerminal() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;

  void Type(const std::string& keys) const {
    EXPECT_EQ(write(fd_, keys.data(), keys.size()), std::ssize(keys));
  }
  // Waits until the output since the last call contains `text`, and returns all up to its end.
  std::string Until(const std::string& text) {
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (shown_.find(text) == shown_.npos && Clock::now() < end && More()) {
    }
    const size_t at = shown_.find(text);
    if (at == shown_.npos) {
      ADD_FAILURE() << "'" << text << "' was not shown, but: " << shown_;
      return "";
    }
    const std::string before = shown_.substr(0, at + text.size());
    shown_.erase(0, before.size());
    return before;
  }
  // The exit status, -1 if it does not end.
  int Ends() {
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (Clock::now() < end && More()) {
    }
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) usleep(200'000);
    const bool ended = kill(pid_, 0) != 0 || waitpid(pid_, &status, WNOHANG) == pid_;
    if (!ended) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // The same, by keys that are typed until it ends: an end of input that is typed while the
  // terminal changes its mode is lost.
  int EndsBy(const std::string& keys) {
    for (int second = 0;
         second < 60 &&
         waitid(P_PID, static_cast<id_t>(pid_), &ended_, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended_.si_pid == 0;
         ++second) {
      Type(keys);
      const auto end = Clock::now() + std::chrono::seconds(1);
      while (Clock::now() < end && More()) {
      }
    }
    return Ends();
  }
  void Signal(int signal) const { kill(pid_, signal); }

 private:
  // Returns true if more may come.
  bool More() {
    pollfd input{.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&input, 1, 100) == 0) return true;
    char bytes[4096];
    const ssize_t got = read(fd_, bytes, sizeof bytes);
    if (got > 0) shown_.append(bytes, static_cast<size_t>(got));
    return got > 0;
  }

  siginfo_t ended_ = {};
  int fd_ = -1;
  pid_t pid_ = -1;
  std::string shown_;
};

// Models that write "A" repeatedly: one that was trained to answer, and one that was not.
class Chat : public TrainTest {
 protected:
  void Teach() {
    std::string chats;
    for (int i = 0; i < 60; ++i) chats += "{\"prompt\":\"Who?\",\"completion\":\"I.\"}\n";
    WriteFileAtomically(At("chats.jsonl"), chats);
    Well(Train("model.n_positions=40 --tokenizer bytes --max-steps 2 --data " +
               At("chats.jsonl").string()));
  }
  std::vector<std::string> Words(const std::string& max_tokens) const {
    return {ProgramPath(),      "chat",         "--no-config", "--model",
            At("run").string(), "--seed",       "1",           "--max-tokens",
            max_tokens,         "--logit-bias", "65=900"};
  }
  static constexpr char kPrompt[] = ">\033[0m ", kEnter[] = "\r", kCtrlC[] = "\003",
                        kCtrlD[] = "\004";
};

TEST_F(Chat, WithoutATerminalItNamesGenerate) {
  ExpectError(2, "chat --model nowhere", "folio chat needs a terminal",
              "folio generate --interactive");
}

TEST_F(Chat, AModelThatWasTaughtAnswers) {
  Teach();
  AtTerminal chat(At(""), Words("5"));
  chat.Until("The model answers");
  chat.Until(kPrompt);
  chat.Type(std::string("Who?") + kEnter);
  chat.Until("AAAAA\r\n");
  chat.Until(kPrompt);
  chat.Type(std::string("/set max-tok 3") + kEnter + "/set" + kEnter);
  chat.Until("max-tokens          3 ");
  chat.Type(std::string("/retry") + kEnter);
  EXPECT_TRUE(Contains(chat.Until("AAA\r\n"), "seed 2"));
  chat.Type(std::string("/tokens") + kEnter);
  EXPECT_TRUE(Contains(chat.Until("3 tokens, perplexity"), "%"));
  chat.Type(std::string("/sett") + kEnter);
  chat.Until("unknown command /sett");
  chat.Type(std::string("/seed x") + kEnter);
  chat.Until("seed: 'x' is not a value");
  chat.Until(kPrompt);
  EXPECT_EQ(chat.EndsBy(kCtrlD), 0);
  const fs::path history = At(".local/state/folio/history");
  EXPECT_EQ(ChatHistory(history).earlier(),
            (std::vector<std::string>{"Who?", "/set max-tok 3", "/set", "/retry", "/tokens",
                                      "/sett", "/seed x"}));
}

TEST_F(Chat, ChoosesTokensAsForAnswersUnlessToldOtherwise) {
  Teach();
  const auto settings = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {ProgramPath(), "chat", "--no-config", At("run").string()};
    words.insert(words.end(), more.begin(), more.end());
    AtTerminal chat(At(""), words);
    std::string shown = chat.Until(kPrompt);
    chat.Type(std::string("/set") + kEnter);
    shown += chat.Until("seed  ");
    chat.Until(kPrompt);
    EXPECT_EQ(chat.EndsBy(kCtrlD), 0);
    return shown;
  };
  const std::string plain = settings({});
  EXPECT_TRUE(Contains(plain, "sampling: temperature 0.3", "temperature         0.3 ",
                       "top-k               40 "));
  EXPECT_TRUE(Contains(settings({"--temperature", "1"}), "temperature         1 ",
                       "top-k               40 "));
  WriteFileAtomically(At("run/best/generation_config.json"), R"({"temperature": 0.9})");
  WriteFileAtomically(
      At("run/best/config.json"),
      Replaced(ReadFile(At("run/best/config.json")), ",\n  \"checksums\": \"SHA256SUMS\"", ""));
  fs::remove(At("run/best/SHA256SUMS"));
  EXPECT_TRUE(Contains(settings({}), "sampling: temperature 0.9", "from generation_config.json",
                       "temperature         0.9 ", "top-k               0 "));
}

TEST_F(Chat, IsToldASystemMessage) {
  Teach();
  std::vector<std::string> words = Words("3");
  words.insert(words.end(), {"--system", "Be brief.", "-v"});
  AtTerminal chat(At(""), words);
  const auto say = [&](const std::string& line, const std::string& until) {
    chat.Until(kPrompt);
    chat.Type(line + kEnter);
    return chat.Until(until);
  };
  say("Who?", "AAA\r\n");
  say("/system You are a pirate.", "(used from the next answer on)");
  say("Who?", "AAA\r\n");
  say("/system", "(no system message)");
  // More than the context of 40 tokens, unlike the message alone.
  say("/system 12345678901234567890123456789012345", "(used from the next answer on)");
  say("Who?", "longer than the model's context");
  chat.Until(kPrompt);
  EXPECT_EQ(chat.EndsBy(kCtrlD), 0);
}

TEST_F(Chat, AModelThatWasNotTaughtGoesOn) {
  Well(Train("--tokenizer bytes"));
  AtTerminal chat(At(""), Words("4"));
  EXPECT_FALSE(Contains(chat.Until("This model was not trained to answer"), "sampling:"));
  chat.Until(kPrompt);
  chat.Type(std::string("/system Be brief.") + kEnter);
  chat.Until("this model was not trained to answer: it takes no system message");
  chat.Until(kPrompt);
  chat.Type(std::string("a text") + kEnter);
  chat.Until("AAAA\r\n");
  chat.Until(kPrompt);
  chat.Type(std::string("/quit") + kEnter);
  EXPECT_EQ(chat.Ends(), 0);
}

TEST_F(Chat, CtrlCEndsTheReplyAndClearsTheLine) {
  Teach();
  AtTerminal chat(At(""), Words("1000000000"));
  chat.Until(kPrompt);
  chat.Type(std::string("Who?") + kEnter);
  chat.Until("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
  chat.Type(kCtrlC);
  chat.Until("(stopped)");
  chat.Until(kPrompt);
  chat.Type(std::string("never said") + kCtrlC + "/quit" + kEnter);
  EXPECT_EQ(chat.Ends(), 0);
  EXPECT_EQ(ChatHistory(At(".local/state/folio/history")).earlier(),
            (std::vector<std::string>{"Who?", "/quit"}));
}

TEST_F(Chat, WhatIsTypedMeanwhileIsNotShownInTheReply) {
  Teach();
  AtTerminal chat(At(""), Words("3000"));
  chat.Until(kPrompt);
  chat.Type(std::string("Who?") + kEnter);
  chat.Until("AAAAAAAAAA");
  chat.Type("/quit");
  EXPECT_FALSE(Contains(chat.Until("A\r\n"), "quit"));
  chat.Until("/quit");
  chat.Type(kEnter);
  EXPECT_EQ(chat.Ends(), 0);
}

TEST_F(Chat, LinesAreBrokenPastedAndBroughtBack) {
  Teach();
  AtTerminal chat(At(""), Words("2"));
  const auto say = [&](const std::string& keys) {
    chat.Until(kPrompt);
    chat.Type(keys + kEnter);
    chat.Until("AA\r\n");
  };
  say("one\\\rtwo");
  say("Ж\033\rz");
  say("\033[200~pasted\rlines\r\033[201~");
  say("\033[A\033[D!");  // the last one again, with a sign before its last letter
  chat.Until(kPrompt);
  EXPECT_EQ(chat.EndsBy(kCtrlD), 0);
  EXPECT_EQ(ChatHistory(At(".local/state/folio/history")).earlier(),
            (std::vector<std::string>{"one\ntwo", "Ж\nz", "pasted\nlines", "pasted\nline!s"}));
}

// A terminal that still reads whole lines turns a Ctrl-D into this.
TEST_F(Chat, ANulIsNoKey) {
  Teach();
  AtTerminal chat(At(""), Words("2"));
  chat.Until(kPrompt);
  chat.Type(std::string("Who") + '\0' + "?" + kEnter);
  chat.Until("AA\r\n");
  chat.Until(kPrompt);
  chat.Type(std::string(1, '\0'));
  EXPECT_EQ(chat.EndsBy(kCtrlD), 0);
  EXPECT_EQ(ChatHistory(At(".local/state/folio/history")).earlier(),
            (std::vector<std::string>{"Who?"}));
}

TEST_F(Chat, ASignalEndsItAtThePrompt) {
  Teach();
  AtTerminal chat(At(""), Words("2"));
  chat.Until(kPrompt);
  chat.Signal(SIGTERM);
  EXPECT_EQ(chat.Ends(), 128 + SIGTERM);
}

}  // namespace
}  // namespace folio
