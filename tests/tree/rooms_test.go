package tree

// room says what the packages at and below a folder may import of ours, besides each other.
// The longest folder that fits a package counts.
type room struct {
	folder string
	allows []string // folders; what is below them is allowed too. "*" is everything
	why    string
}

// rooms is the table of the architecture page. A top-level folder without a row is a fault, so
// that a new room is declared before it is used.
var rooms = []room{
	{"cmd/zoomies", []string{"*"}, "the binary wires every role"},
	{"cmd/zoomies/agentcmd", []string{"agent", "tunnel"}, "the agent's command is in the small binary, too"},
	{"cmd/zoomies-agent", []string{"cmd/zoomies/agentcmd", "agent", "tunnel"}, "it is carried by the config of every rented machine: it must stay small"},

	{"controller", []string{"controller", "provider", "ignition", "tunnel", "agent/protocol", "images/catalogue"},
		"the control plane knows an agent only by the wire types: the two halves run on different machines and versions"},
	{"controller/scheduler", nil, "decisions are pure: what is decided must not depend on how it is stored or carried out"},
	{"controller/store", []string{"controller/secrets", "agent/protocol"}, "the store keeps and does not decide: no loop, no GitHub and no agent below it, only the words for tasks"},
	{"controller/github", []string{"controller/secrets"}, "it is told what to ask and says what it heard; it never writes to the store"},
	{"controller/secrets", nil, "what seals secrets must be small enough to read whole"},
	{"controller/auth", nil, "proofs of identity stand on nothing that can be configured around them"},
	{"controller/auth/signin", []string{"controller/auth", "controller/store"}, "it finds out who somebody is from rows, and knows no request"},
	{"controller/api", []string{"controller/auth", "controller/config", "controller/events", "controller/github", "controller/problems", "controller/recovered", "controller/relay",
		"controller/scheduler",
		"controller/secrets", "controller/store"}, "the API asks the loops through an interface of its own: it must not know how they work"},
	{"controller/relay", nil, "it passes bytes on, and knows neither who sends them nor who may watch"},
	{"controller/certs", nil, "what holds private keys must be small enough to read whole"},
	{"controller/config", nil, "settings are read before anything else of ours exists"},
	{"controller/problems", []string{"controller/auth", "controller/config"}, "a declared list: who it is for and what the settings can be are words that it takes from others"},
	{"controller/metrics", nil, "metrics are declared in one table and must never read the store"},
	{"controller/events", nil, "a wake carries no data, so it needs no type of ours"},
	{"controller/tasks", []string{"agent/protocol", "controller/events", "controller/store"}, "the queue is rows, wakes and wire types"},

	{"controller/machines", []string{"controller/auth", "controller/events", "controller/machines", "controller/metrics", "controller/store", "provider"},
		"the loop that rents: it is told what is needed, and knows neither jobs nor GitHub nor a kind of provider"},
	{"controller/machines/plan", nil, "decisions are pure: what is decided must not depend on how it is stored or carried out"},

	{"agent", []string{"agent", "tunnel"}, "the agent runs alone on a host: nothing of the controller may be linked into it"},
	{"agent/protocol", nil, "the wire types belong to neither half"},
	{"agent/backend", []string{"agent/backend"}, "a backend does what it is told; it knows no task, no controller and no agent"},

	{"provider", []string{"provider"}, "a provider has no opinions about the fleet"},
	{"gateway", []string{"gateway", "tunnel"}, "it forwards, and runs beside a hypervisor where little else should"},
	{"gateway/install", []string{"gateway", "provider/proxmox/privileges"}, "what root grants is in the program that root starts, and is no list that arrives over a network; the preflight goes by the same table"},
	{"ignition", nil, "configs are made from plain values"},
	{"tunnel", nil, "the one package over tailscale.com stands alone"},
	{"appliance", []string{"ignition"}, "the OS image is built without the fleet"},
	{"images", nil, "what runs inside a job's container must carry nothing of the fleet"},
	{"client", nil, "the API's client is what others link: it stands alone"},
	{"sim", nil, "the outside world is held to its vendors' descriptions, not to our own idea of them"},
	{"tools", []string{"controller/api", "controller/auth", "controller/config", "controller/metrics", "controller/problems"}, "tools read tables and make pages"},
	{"tests", []string{"*"}, "what crosses rooms is tested here"},
}

// exclusive says that only some folders import a library, tests included.
type exclusive struct {
	library string // an import path; what is below it counts
	only    []string
	why     string
}

var exclusives = []exclusive{
	{"database/sql", []string{"controller/store"}, "one place for every query, and no second writer by mistake"},
	{"modernc.org/sqlite", []string{"controller/store"}, "one place knows which database it is"},
	{"github.com/pressly/goose", []string{"controller/store"}, "only the store changes its schema"},
	{"tailscale.com", []string{"tunnel"}, "it is large, and its defaults speak to the internet"},
	{"github.com/tailscale", []string{"tunnel"}, "it is large, and its defaults speak to the internet"},
	{"github.com/containers", []string{"agent/backend/podman"}, "the Podman bindings take minutes to compile: unit tests elsewhere must not"},
	{"go.podman.io", []string{"agent/backend/podman"}, "the Podman bindings take minutes to compile: unit tests elsewhere must not"},
	{"github.com/moby/moby/client", []string{"agent/backend/docker"}, "one backend speaks to Docker"},
	{"github.com/luthermonson/go-proxmox", []string{"provider/proxmox"}, "only one package speaks to Proxmox"},
	{"github.com/coreos/butane", []string{"ignition"}, "one place turns plain values into configs"},
	{"github.com/coreos/ignition", []string{"ignition"}, "one place knows Ignition's own types and rules"},
	{"github.com/diskfs/go-diskfs", []string{"ignition/drive"}, "one package writes drives"},
	{"github.com/knadh/koanf", []string{"controller/config"}, "settings have one way in"},
	{"github.com/spf13/cobra", []string{"cmd"}, "commands are the binary's, not a room's"},
}

// far says what a folder's packages must not reach, however many imports lie between.
type far struct {
	folder, library, why string
}

var fars = []far{
	{"agent/protocol", "github.com/containers", "both halves link the wire types"},
	{"controller/scheduler", "database/sql", "decisions are pure"},
	{"controller", "github.com/containers", "the controller's tests must compile in seconds"},
	{"controller", "github.com/moby/moby/client", "the controller starts no container"},
	{"cmd/zoomies-agent", "github.com/spf13/cobra", "it is carried by the config of every rented machine: it must stay small"},
	{"cmd/zoomies-agent", "database/sql", "it is carried by the config of every rented machine: it must stay small"},
	{"cmd/zoomies-agent", "github.com/moby/moby/client", "rented machines have Podman: it must stay small"},
	{"cmd/zoomies-agent", "github.com/coreos/butane", "an agent makes no configs: it must stay small"},
	{"sim", "database/sql", "a simulation keeps its state in memory, so that a test starts with none"},
}

// pure folders use the standard library only, and of it nothing that asks the world.
var pure = []struct{ folder, why string }{
	{"controller/scheduler", "a decision is repeated in tests and explained afterwards: it depends on its snapshot alone"},
	{"controller/machines/plan", "a decision to rent or to delete is repeated in tests: it depends on its snapshot alone"},
	{"controller/updates", "a planner is pure: it depends on its snapshot alone"},
}

// impure are the standard packages that ask the world.
var impure = []string{
	"os", "net", "io/ioutil", "log", "log/slog", "database", "math/rand", "crypto/rand", "syscall", "runtime", "testing", "embed", "unsafe", "plugin",
}

// clock are the functions of package time that ask or wait.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
