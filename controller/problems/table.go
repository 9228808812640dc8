package problems

import "github.com/zoomies-fleet/zoomies/controller/auth"

// What the controller's loops find.
var (
	LeaseLost = declare(Kind{
		Code: "controller.lease_lost", Severity: Error, Audience: auth.Platform, Subject: OfFleet,
		Title: "Another controller has taken this one's database",
		Why:   "Two controllers must never decide for one fleet. This one's lease on the database was taken, so it has stood down: it decides nothing and hands out no task.",
		Fix:   "Stop one of the two controllers, then restart the other.",
	})
	PollOnly = declare(Kind{
		Code: "github.polling_only", Severity: Warning, Audience: auth.Admin, Subject: OfInstallation,
		Title: "An installation is served by polling alone",
		Why:   "Polls find jobs that no webhook told of. Jobs still run, up to a poll interval later, and the polls spend GitHub's budget of calls.",
		Fix:   "Check the App's webhook address and secret, and whether GitHub can reach this controller.",
		Remedy: &Remedy{Summary: "Ask GitHub whether the App's key, permissions and webhook are in order", Operation: "check-installation",
			Command: "zoomies installations check {subject}"},
	})
	GitHubRefused = declare(Kind{
		Code: "github.refused", Severity: Error, Audience: auth.Admin, Subject: OfInstallation,
		Title: "GitHub refuses an installation, or its key cannot be used",
		Why:   "No runner can be registered there and no poll is answered: the App's key was replaced, the App was suspended or removed, or it lacks a permission.",
		Fix:   "Check the installation: it says what GitHub says. Give it the App's current key, or install the App again. The problem goes with the first answer.",
		Remedy: &Remedy{Summary: "Ask GitHub whether the App's key, permissions and webhook are in order", Operation: "check-installation",
			Command: "zoomies installations check {subject}"},
	})
	HostLost = declare(Kind{
		Code: "hosts.lost", Severity: Error, Audience: auth.Operator, Subject: OfHost,
		Title: "A host is lost",
		Why:   "Its agent has not been heard from for five minutes. Its runners were given up, and it gets no others.",
		Fix:   "Check that the machine runs and reaches this controller, and start its agent. It is taken back at its first heartbeat. If it is gone for good, delete the host.",
		Remedy: &Remedy{Summary: "Forget the host, when its machine is gone for good", Operation: "delete-host",
			Command: "zoomies hosts delete {subject}"},
	})
	BackendBroken = declare(Kind{
		Code: "hosts.backend_broken", Severity: Error, Audience: auth.Operator, Subject: OfHost,
		Title: "A host cannot use a backend",
		Why:   "The agent's probe of the backend failed. No runner that needs it is placed there.",
		Fix:   "Look on the host, as the user that its agent runs as, whether the engine is installed and runs. It is probed again at each heartbeat.",
	})
	DiskFull = declare(Kind{
		Code: "hosts.disk_full", Severity: Error, Audience: auth.Operator, Subject: OfHost,
		Title: "A host takes no new runners, because its disk is full",
		Why:   "On a full disk jobs fail half-way. Running jobs go on; images that were fetched for runners and are not in use have been evicted already.",
		Fix:   "Free space on the host, or give it a larger disk. It takes runners again by itself.",
		Remedy: &Remedy{Summary: "Empty the host, so that it can be cleaned up", Operation: "drain-host",
			Command: "zoomies hosts drain {subject}"},
	})
	Unmatched = declare(Kind{
		Code: "jobs.unmatched", Severity: Warning, Audience: auth.Admin, Subject: OfFleet,
		Title: "Queued jobs ask for labels that no pool offers",
		Why:   "A job waits until a pool of its installation offers every label of its runs-on, for a day at most; then GitHub fails it.",
		Fix:   "Make a pool with those labels, or change the workflow's runs-on.",
		Remedy: &Remedy{Summary: "Make a pool with those labels", Operation: "create-pool",
			Body:    map[string]any{"name": "<name>", "installation_id": "<installation>", "labels": []string{"<label>"}},
			Command: "zoomies pools create NAME --installation INSTALLATION --labels LABEL"},
	})
	PoolBlocked = declare(Kind{
		Code: "pool.blocked", Severity: Error, Audience: auth.Operator, Subject: OfPool,
		Title: "A pool wants more runners and no host can take them",
		Why:   "No host is healthy, has the pool's backend and platform, and fits its selector. Hosts that are merely full are no problem: their jobs end.",
		Fix:   "Bring a fitting host back, uncordon it, or join another.",
		Remedy: &Remedy{Summary: "Make a token with which another host joins", Operation: "create-join-token",
			Command: "zoomies join-token --host NAME"},
	})
	ClientMissing = declare(Kind{
		Code: "pool.docker_client_missing", Severity: Warning, Audience: auth.Admin, Subject: OfPool,
		Title: "The image of a pool may have no client for its daemon",
		Why:   "The pool's jobs are offered a container daemon, and its image is none that is known to have the daemon's client.",
		Fix:   "Set the pool's image to one that has the client, or to a system of the catalogue, such as debian-13.",
		Remedy: &Remedy{Summary: "Use an image of the catalogue", Operation: "update-pool", Body: map[string]any{"image": "debian-13"},
			Command: "zoomies pools edit {subject} --image debian-13"},
	})
	IdleExits = declare(Kind{
		Code: "runners.exit_without_job", Severity: Error, Audience: auth.Operator, Subject: OfPool,
		Title: "The runners of a pool end without taking a job",
		Why:   "Several runners in a row ended soon after their start while the jobs that they were made for still wait. The pool waits before it starts more.",
		Fix:   "Look at the log of the last runner. Is its image a runner image, and does its runner group serve these repositories?",
		Remedy: &Remedy{Summary: "Pause the pool while you look", Operation: "pause-pool", Body: map[string]any{},
			Command: "zoomies pools pause {subject}"},
	})
	RunnerAging = declare(Kind{
		Code: "runners.image_aging", Severity: Warning, Audience: auth.Platform, Subject: OfPool,
		Title: "The runner in a pool's image will soon be too old",
		Why:   "GitHub gives no jobs to a runner that is 30 days behind a newer release.",
		Fix:   "Update Zoomies, and rebuild the runner images.",
	})
	NotProgressing = declare(Kind{
		Code: "runners.not_progressing", Severity: Warning, Audience: auth.Operator, Subject: OfPool,
		Title: "Runners of a pool take long to come online",
		Why:   "Half of the time that a runner may take is over. One that is not online in time is failed and replaced.",
		Fix:   "Look at the runners' messages and at their host: is the image large and not there yet, does its daemon start, can containers reach GitHub?",
	})
	RunnerVersion = declare(Kind{
		Code: "runners.version_deprecated", Severity: Error, Audience: auth.Admin, Subject: OfPool,
		Title: "GitHub refuses the runner version in a pool's image",
		Why:   "GitHub no longer gives jobs to runners of that version. No job of the pool can run until its image is newer.",
		Fix:   "Rebuild the runner image with the current runner release, or update the appliance, and set it on the pool.",
		Remedy: &Remedy{Summary: "Set a newer image on the pool", Operation: "update-pool", Body: map[string]any{"image": "<image>"},
			Command: "zoomies pools edit {subject} --image IMAGE"},
	})
)
