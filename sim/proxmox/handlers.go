package proxmox

// handlers are what answers the methods of the table.
var handlers map[string]handler

func init() { //nolint:gochecknoinits // the handlers find methods in the table that they are in
	const vm = "/nodes/{node}/qemu/{vmid}"
	const st = "/nodes/{node}/storage"
	handlers = map[string]handler{
		"GET /version":                   getVersion,
		"GET /access/permissions":        getPermissions,
		"GET /cluster/resources":         getResources,
		"GET /cluster/nextid":            getNextID,
		"GET /cluster/status":            getClusterStatus,
		"GET /cluster/options":           getClusterOptions,
		"GET /cluster/tasks":             getClusterTasks,
		"GET /cluster/ha/resources":      getHAResources,
		"GET /cluster/ha/status/current": getHAStatus,

		"GET /nodes":                getNodes,
		"GET /nodes/{node}/status":  getNodeStatus,
		"GET /nodes/{node}/version": getVersion,
		"GET /nodes/{node}/network": getNetwork,

		"GET /nodes/{node}/qemu":                      getMachines,
		"POST /nodes/{node}/qemu":                     qemuCreate,
		"GET " + vm:                                   getMachineIndex,
		"DELETE " + vm:                                qemuDestroy,
		"GET " + vm + "/config":                       getConfig,
		"PUT " + vm + "/config":                       qemuConfigure,
		"POST " + vm + "/config":                      qemuConfigure,
		"GET " + vm + "/pending":                      getPending,
		"GET " + vm + "/feature":                      getFeature,
		"GET " + vm + "/status/current":               getStatus,
		"POST " + vm + "/status/start":                qemuStart,
		"POST " + vm + "/status/stop":                 qemuStop,
		"POST " + vm + "/status/shutdown":             qemuShutdown,
		"POST " + vm + "/status/reboot":               qemuReboot,
		"POST " + vm + "/status/reset":                qemuSignal("qmreset"),
		"POST " + vm + "/status/suspend":              qemuSignal("qmpause"),
		"POST " + vm + "/status/resume":               qemuSignal("qmresume"),
		"POST " + vm + "/clone":                       qemuClone,
		"POST " + vm + "/template":                    qemuTemplate,
		"POST " + vm + "/migrate":                     qemuMigrate,
		"PUT " + vm + "/resize":                       qemuResize,
		"POST " + vm + "/agent/ping":                  askGuestAgent,
		"GET " + vm + "/agent/network-get-interfaces": askGuestAgent,

		"GET /nodes/{node}/tasks":               getTasks,
		"GET /nodes/{node}/tasks/{upid}":        getTaskIndex,
		"DELETE /nodes/{node}/tasks/{upid}":     stopTask,
		"GET /nodes/{node}/tasks/{upid}/log":    getTaskLog,
		"GET /nodes/{node}/tasks/{upid}/status": getTaskStatus,

		"GET " + st:                                    getStorages,
		"GET " + st + "/{storage}":                     getStorageIndex,
		"GET " + st + "/{storage}/status":              getStorageStatus,
		"GET " + st + "/{storage}/content":             getContent,
		"GET " + st + "/{storage}/content/{volume}":    getVolume,
		"DELETE " + st + "/{storage}/content/{volume}": deleteVolume,
		"POST " + st + "/{storage}/upload":             receiveUpload,
		"GET /storage":                                 getStorageConfig,
		"GET /storage/{storage}":                       getOneStorageConfig,

		"GET /pools":             getPools,
		"POST /pools":            createPool,
		"PUT /pools":             updatePool,
		"DELETE /pools":          deletePool,
		"GET /pools/{poolid}":    getPool,
		"PUT /pools/{poolid}":    updatePool,
		"DELETE /pools/{poolid}": deletePool,
	}
}
