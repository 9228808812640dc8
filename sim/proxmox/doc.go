// Package proxmox is a Proxmox VE cluster in one process: its HTTPS API with the same words, codes
// and habits as the real one (reason phrases, locks that wait, tasks, stale lists, privileges of
// users and tokens), its storages and its virtual machines. What runs in a machine is a Driver's
// business. Faults are a script; time is an injected clock, so that twenty minutes take
// milliseconds.
//
// Methods, their parameters and who may call them come from Proxmox's own description of its API
// (table.json, made by gen), and what the simulation answers is held to exchanges recorded from a
// real one. It imports nothing of ours, and must never learn what the fleet expects of Proxmox.
package proxmox
