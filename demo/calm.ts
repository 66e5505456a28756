/** The whole story in this process, without a crash. */
import type { Board } from './board.ts'
import { openCallLog } from './calls.ts'
import type { Files } from './figures.ts'
import { drained, listeningMetrics, openTables, produce, watch } from './producer.ts'
import { openShop } from './shop.ts'
import { createStory } from './story.ts'

const DRAIN_TIMEOUT_MS = 30_000

export const runCalm = async (
  board: Board,
  files: Files,
  options: { readonly events: number; readonly seed: number },
): Promise<void> => {
  const metrics = listeningMetrics({
    breaker: (destination, state) => story.breakerChanged(destination, state),
  })
  const calls = openCallLog(files.calls, (call) => board.called(call))
  const shop = openShop({ file: files.database, calls, metrics })
  const story = createStory(board, () => ({ shop }))
  try {
    await shop.outbox.start()
    const progress = await openTables(shop)
    const watching = watch(shop, metrics, progress, (stats) => {
      board.updated(stats)
      story.refresh()
    })
    try {
      const { scenes } = story
      const progressed = (): void => {
        board.published = progress.published
        board.rolledBack = progress.rolledBack
      }
      await produce(shop, progress, { ...options, scenes, metrics, progressed })
      board.tell('the shop is closed for today; what is on its way still arrives')
      const clean = await drained(watching.look, DRAIN_TIMEOUT_MS)
      board.tell(clean ? 'everything has arrived' : 'something did not arrive in time')
    } finally {
      await watching.stop()
    }
  } finally {
    await shop.outbox.close()
    calls.close()
  }
}
